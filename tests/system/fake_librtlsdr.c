/* A stand-in for librtlsdr, for tests of the rtl_tcp client with the real rtl_tcp server.
 *
 * It has the functions that rtl_tcp calls, and no dongle. Samples arrive in real time, in blocks of
 * the same size as from the real library: noise and a tone at a quarter of the sample rate. The
 * amplitude of the tone alternates with the monotonic clock, high in even periods and low in odd
 * ones, so that a client on the same machine knows the level at any time.
 *
 * Environment: FAKE_PERIOD_MS   duration of a level (100)
 *              FAKE_QUIET_S     time without a tone after the first client connects (0)
 *              FAKE_LOSE_MS     samples lost once, 3 s after the first client connects (0)
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCK_BYTES 262144
#define HIGH 32
#define LOW 8

typedef void (*callback_t)(unsigned char *buffer, uint32_t length, void *context);
typedef struct rtlsdr_dev {
    uint32_t rate;
    volatile int cancelled;
} rtlsdr_dev_t;

static rtlsdr_dev_t the_device = {2048000, 0};
static const int gains[] = {0, 90, 200, 297, 496};

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void sleep_until_ns(int64_t moment) {
    struct timespec t = {moment / 1000000000LL, moment % 1000000000LL};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

static double setting(const char *name, double otherwise) {
    const char *text = getenv(name);
    return text ? atof(text) : otherwise;
}

static uint32_t random_bits(void) {
    static uint32_t state = 2463534242u;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

/* One byte: the level, one half so that 127.5 is the centre, and noise of -2 to 2 from four bits. */
static unsigned char byte_of(int level) {
    uint32_t bits = random_bits() >> 8;
    int noise = (bits & 1) + (bits >> 1 & 1) + (bits >> 2 & 1) + (bits >> 3 & 1) - 2;
    return (unsigned char)(127 + level + noise + (bits >> 4 & 1));
}

int rtlsdr_read_async(rtlsdr_dev_t *device, callback_t callback, void *context,
                      uint32_t buffer_count, uint32_t buffer_length) {
    static int64_t first_client = 0;
    static int has_lost = 0;
    static const int real[] = {1, 0, -1, 0}, imaginary[] = {0, 1, 0, -1};
    uint32_t length = buffer_length ? buffer_length : BLOCK_BYTES;
    unsigned char *buffer = malloc(length);
    int64_t period = (int64_t)(setting("FAKE_PERIOD_MS", 100) * 1e6);
    int64_t lost = (int64_t)(setting("FAKE_LOSE_MS", 0) * 1e6);
    int64_t begin = now_ns();
    uint32_t rate = device->rate;
    uint64_t count = 0;
    (void)buffer_count;
    if (!first_client)
        first_client = begin;
    int64_t quiet_until = first_client + (int64_t)(setting("FAKE_QUIET_S", 0) * 1e9);
    device->cancelled = 0;
    while (!device->cancelled) {
        if (rate != device->rate) {
            rate = device->rate;
            begin = now_ns();
            count = 0;
        }
        if (lost && !has_lost && now_ns() > first_client + 3000000000LL) {
            begin += lost;
            has_lost = 1;
        }
        for (uint32_t i = 0; i < length / 2; i++, count++) {
            int64_t moment = begin + (int64_t)(count * 1000000000.0 / rate);
            int level = moment < quiet_until ? 0 : (moment / period) % 2 ? LOW : HIGH;
            buffer[2 * i] = byte_of(level * real[count % 4]);
            buffer[2 * i + 1] = byte_of(level * imaginary[count % 4]);
        }
        sleep_until_ns(begin + (int64_t)(count * 1000000000.0 / rate));
        callback(buffer, length, context);
    }
    free(buffer);
    return 0;
}

int rtlsdr_cancel_async(rtlsdr_dev_t *device) {
    device->cancelled = 1;
    return 0;
}

int rtlsdr_open(rtlsdr_dev_t **device, uint32_t index) {
    (void)index;
    *device = &the_device;
    return 0;
}

int rtlsdr_close(rtlsdr_dev_t *device) { return device ? 0 : -1; }

uint32_t rtlsdr_get_device_count(void) { return 1; }

const char *rtlsdr_get_device_name(uint32_t index) {
    (void)index;
    return "stand-in";
}

int rtlsdr_get_device_usb_strings(uint32_t index, char *maker, char *product, char *serial) {
    (void)index;
    if (maker)
        strcpy(maker, "none");
    if (product)
        strcpy(product, "stand-in");
    if (serial)
        strcpy(serial, "0");
    return 0;
}

int rtlsdr_set_sample_rate(rtlsdr_dev_t *device, uint32_t rate) {
    if (rate <= 225000 || rate > 3200000)
        return -EINVAL;
    device->rate = rate;
    return 0;
}

int rtlsdr_get_tuner_gains(rtlsdr_dev_t *device, int *list) {
    (void)device;
    if (list)
        memcpy(list, gains, sizeof gains);
    return sizeof gains / sizeof *gains;
}

int rtlsdr_get_tuner_type(rtlsdr_dev_t *device) {
    (void)device;
    return 5; /* R820T */
}

/* Accepted without effect; rtl_tcp prints each of them on its standard output. */
#define ACCEPT(name, ...) \
    int name(rtlsdr_dev_t *device, ##__VA_ARGS__) { return device ? 0 : -1; }
ACCEPT(rtlsdr_reset_buffer)
ACCEPT(rtlsdr_set_agc_mode, int on)
ACCEPT(rtlsdr_set_bias_tee, int on)
ACCEPT(rtlsdr_set_center_freq, uint32_t hertz)
ACCEPT(rtlsdr_set_direct_sampling, int on)
ACCEPT(rtlsdr_set_freq_correction, int ppm)
ACCEPT(rtlsdr_set_offset_tuning, int on)
ACCEPT(rtlsdr_set_testmode, int on)
ACCEPT(rtlsdr_set_tuner_gain, int tenths)
ACCEPT(rtlsdr_set_tuner_gain_mode, int manual)
ACCEPT(rtlsdr_set_tuner_if_gain, int stage, int tenths)
ACCEPT(rtlsdr_set_xtal_freq, uint32_t rtl, uint32_t tuner)
