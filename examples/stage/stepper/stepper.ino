// A linear stage on an Arduino-style board: a stepper motor with a step/dir driver, and one home
// switch. README.md describes the protocol. The pins are those of the X axis of a CNC shield.
//
// The switch is normally closed, between HOME_PIN and ground: a broken wire counts as pressed.

#include <util/atomic.h>
#include <util/crc16.h>

// -- Set these to your rail -------------------------------------------------------------------

const char NAME[] = "rail-1";     // which rail this is, without spaces
const long STEP_NM = 12500;       // the length of a step, in nanometres
const long TRAVEL = 23600;        // the longest position, in steps
const long MAX_SPEED = 8000;      // steps/s, at most TICKS / 2
const long ACCELERATION = 160000; // steps/s²
const long HOMING_SPEED = 4000;   // towards the switch
const long RELEASE_SPEED = 400;   // off the switch
const long PULL_OFF = 80;         // from the point where the switch opens to position 0
const long MARGIN = 800;          // how far beyond TRAVEL the switch may be

const uint8_t STEP_PIN = 2, DIR_PIN = 5, ENABLE_PIN = 8, HOME_PIN = 9;
const uint8_t AWAY = HIGH;        // the level of DIR_PIN for motions away from the switch

// -- Motion: one step at most in each tick of timer 1 -----------------------------------------

const uint32_t TICKS = 20000;     // per second
const uint8_t DEBOUNCE = 20;      // ticks
const uint32_t START_RATE = 200 * (4294967296.0 / TICKS);
const uint32_t RATE_STEP = ACCELERATION * (4294967296.0 / TICKS / TICKS);
static_assert(MAX_SPEED <= TICKS / 2, "a step needs two ticks");

enum Switch : uint8_t { RELEASED = LOW, PRESSED = HIGH };

volatile long position = 0, target = 0;
volatile bool running = false;    // whether the motor turns
volatile bool hit = false;        // whether the switch has ended the motion
uint32_t rate, top_rate, phase;   // a step is due when the phase overflows
long ramp;                        // how many steps it takes to brake
int8_t direction;
uint8_t halting_level, level_ticks;
bool halts_softly;

// End the motion within the length of the ramp. Call it with interrupts off.
void brake() {
  if (labs(target - position) > ramp) target = position + direction * ramp;
}

ISR(TIMER1_COMPA_vect) {
  digitalWrite(STEP_PIN, LOW);
  if (!running) return;
  level_ticks = digitalRead(HOME_PIN) == halting_level ? level_ticks + 1 : 0;
  if (level_ticks == DEBOUNCE && !hit) {
    hit = true;
    if (halts_softly) brake(); else target = position;
  }
  long left = labs(target - position);
  if (left == 0) {
    running = false;
    return;
  }
  bool slower = left <= ramp, faster = !slower && rate < top_rate;
  if (slower) rate = rate > START_RATE + RATE_STEP ? rate - RATE_STEP : START_RATE;
  if (faster) rate = top_rate - rate > RATE_STEP ? rate + RATE_STEP : top_rate;
  phase += rate;
  if (phase >= rate) return;      // no overflow
  digitalWrite(STEP_PIN, HIGH);
  position += direction;
  ramp += faster ? 1 : slower ? -1 : 0;
}

// Start a motion from rest. The switch ends it at `halting`.
void start(long to, long speed, Switch halting, bool softly) {
  direction = to < position ? -1 : 1;
  digitalWrite(DIR_PIN, direction > 0 ? AWAY : !AWAY);
  top_rate = speed * (4294967296.0 / TICKS);
  rate = min(START_RATE, top_rate);
  phase = ramp = 0;
  halting_level = halting;
  halts_softly = softly;
  level_ticks = hit = 0;
  target = to;
  running = true;                 // the timer takes over
}

// -- State ------------------------------------------------------------------------------------

enum State : uint8_t { UNHOMED, IDLE, FAULT, MOVING, SEEKING, RELEASING, PULLING_OFF, ABORTING };
const char *const STATE_NAMES[] = {"unhomed", "idle",   "fault",  "moving",
                                   "homing",  "homing", "homing", "homing"};
State state = UNHOMED;

void home() {
  state = SEEKING;
  start(position - TRAVEL - MARGIN, HOMING_SPEED, PRESSED, true);
}

void stop() {
  ATOMIC_BLOCK(ATOMIC_RESTORESTATE) { brake(); }
  if (state > MOVING) state = ABORTING;
}

// Continue after the motor has come to rest.
void motion_is_over() {
  switch (state) {
    case MOVING:
      state = hit ? FAULT : IDLE;
      break;
    case SEEKING:
      state = hit ? RELEASING : FAULT;
      if (hit) start(position + MARGIN, RELEASE_SPEED, RELEASED, false);
      break;
    case RELEASING:
      state = hit ? PULLING_OFF : FAULT;
      if (hit) start(position + PULL_OFF, RELEASE_SPEED, PRESSED, false);
      break;
    case PULLING_OFF:
      state = hit ? FAULT : IDLE;
      position = 0;
      break;
    case ABORTING:
      state = UNHOMED;
      break;
    default:
      break;
  }
}

// -- Protocol ---------------------------------------------------------------------------------

char line[48];
uint8_t length = 0;               // the line is too long if this is the size of `line`

uint16_t checksum(const char *text) {
  uint16_t crc = 0;
  while (*text) crc = _crc_xmodem_update(crc, *text++);
  return crc;
}

void reply(unsigned number, const char *result, const char *facts = "") {
  long here;
  ATOMIC_BLOCK(ATOMIC_RESTORESTATE) { here = position; }
  char text[96];
  uint8_t end = snprintf(text, sizeof text, "%u %s %s %ld%s", number, result, STATE_NAMES[state],
                         here, facts);
  snprintf(text + end, sizeof text - end, "*%04X\n", checksum(text));
  Serial.print(text);
}

const char *move(long to, long speed) {
  if (to < 0 || to > TRAVEL || speed < 1 || speed > MAX_SPEED) return "limit";
  if (state != IDLE) return state >= MOVING ? "busy" : "unhomed";
  state = MOVING;
  start(to, speed, PRESSED, false);
  return "ok";
}

// Execute a line without its end. One with a wrong checksum has no effect and no answer.
void execute(char *text) {
  char *star = strrchr(text, '*');
  if (!star || strlen(star) != 5) return;
  *star = 0;
  if (strtoul(star + 1, NULL, 16) != checksum(text)) return;

  unsigned number;
  char verb[8], extra;
  long first, second;
  int words = sscanf(text, "%2u %7s %8ld %8ld %c", &number, verb, &first, &second, &extra);
  if (words < 2) return;
  if (words == 4 && !strcmp(verb, "move")) return reply(number, move(first, second));
  if (words != 2) return reply(number, "unknown");
  if (!strcmp(verb, "status")) return reply(number, "ok");
  if (!strcmp(verb, "stop")) {
    stop();
    return reply(number, "ok");
  }
  if (!strcmp(verb, "home")) {
    if (state >= MOVING) return reply(number, "busy");
    home();
    return reply(number, "ok");
  }
  if (strcmp(verb, "info")) return reply(number, "unknown");
  char facts[64];
  snprintf(facts, sizeof facts, " stepper-1 %s %ld %ld %ld %ld %ld", NAME, STEP_NM, TRAVEL,
           MAX_SPEED, ACCELERATION, HOMING_SPEED);
  reply(number, "ok", facts);
}

void receive(char byte) {
  if (byte != '\n') {
    if (length < sizeof line) line[length++] = byte;
    return;
  }
  if (length < sizeof line) {
    line[length] = 0;
    execute(line);
  }
  length = 0;
}

void setup() {
  pinMode(STEP_PIN, OUTPUT);
  pinMode(DIR_PIN, OUTPUT);
  pinMode(ENABLE_PIN, OUTPUT);
  digitalWrite(ENABLE_PIN, LOW);
  pinMode(HOME_PIN, INPUT_PULLUP);
  ATOMIC_BLOCK(ATOMIC_RESTORESTATE) {
    TCCR1A = 0;
    TCCR1B = _BV(WGM12) | _BV(CS11); // clear on compare, clock / 8
    OCR1A = F_CPU / 8 / TICKS - 1;
    TIMSK1 = _BV(OCIE1A);
  }
  Serial.begin(115200);
  reply(0, "ok");                  // the board has started
}

void loop() {
  if (!running) motion_is_over();
  if (Serial.available()) receive(Serial.read());
}
