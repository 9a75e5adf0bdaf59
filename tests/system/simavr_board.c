/* An Arduino Uno on simavr, with a carriage and a home switch, in real time:
 *
 *     simavr_board FIRMWARE.elf CARRIAGE STEPS
 *
 * Standard input is its serial port, in both directions. The carriage starts STEPS from the switch; the
 * file CARRIAGE contains where it is, as an int32_t. The pins are those of examples/stage. */

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <simavr/avr_ioport.h>
#include <simavr/avr_uart.h>
#include <simavr/sim_avr.h>
#include <simavr/sim_elf.h>

enum { HZ = 16000000, SLICE = HZ / 2000, BYTE = HZ * 10 / 115200, STEP = 2, DIR = 5, HOME = 1 };

static avr_t *avr;
static volatile int32_t *carriage;
static uint32_t away;
static elf_firmware_t firmware;

static avr_irq_t *pin(char port, int number) {
    return avr_io_getirq(avr, AVR_IOCTL_IOPORT_GETIRQ(port), number);
}

static void sent(avr_irq_t *irq, uint32_t byte, void *unused) {
    uint8_t out = byte;
    (void)irq, (void)unused;
    if (write(STDIN_FILENO, &out, 1) < 0) perror("write");
}

static void turned(avr_irq_t *irq, uint32_t level, void *unused) {
    (void)irq, (void)unused;
    away = level;
}

/* Set the level of the home pin. Without the first part, the pull-up resistor would raise it. */
static void set_switch(void) {
    avr_ioport_external_t held = {.name = 'B', .mask = 1 << HOME, .value = (*carriage <= 0) << HOME};
    avr_ioctl(avr, AVR_IOCTL_IOPORT_SET_EXTERNAL('B'), &held);
    avr_raise_irq(pin('B', HOME), *carriage <= 0);
}

static void stepped(avr_irq_t *irq, uint32_t level, void *unused) {
    (void)irq, (void)unused;
    if (!level) return;
    *carriage += away ? 1 : -1;
    set_switch();
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int count, char **words) {
        uint8_t input[256];
    ssize_t length = 0, taken = 0;
    uint32_t flags = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (count != 4 || elf_read_firmware(words[1], &firmware)) return 2;
    int file = open(words[2], O_RDWR);
    carriage = mmap(NULL, 4, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || carriage == MAP_FAILED) return 2;
    *carriage = atoi(words[3]);

    avr = avr_make_mcu_by_name("atmega328p");
    avr_init(avr);
    avr_load_firmware(avr, &firmware);
    avr->frequency = HZ;
    avr_ioctl(avr, AVR_IOCTL_UART_SET_FLAGS('0'), &flags);
    avr_irq_register_notify(
        avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_OUTPUT), sent, NULL);
    avr_irq_register_notify(pin('D', DIR), turned, NULL);
    avr_irq_register_notify(pin('D', STEP), stepped, NULL);
    set_switch();

    avr_irq_t *serial = avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_INPUT);
    avr_cycle_count_t next_slice = SLICE, next_byte = 0;
    int64_t began_ns = now_ns();
    while (avr->state != cpu_Done && avr->state != cpu_Crashed) {
        avr_run(avr);
        if (taken < length && avr->cycle >= next_byte) {
            avr_raise_irq(serial, input[taken++]);
            next_byte = avr->cycle + BYTE;
        }
        if (avr->cycle < next_slice) continue;
        next_slice = avr->cycle + SLICE;
        struct pollfd readable = {.fd = STDIN_FILENO, .events = POLLIN};
        if (taken == length && poll(&readable, 1, 0) > 0 && readable.revents & POLLIN) {
            length = read(STDIN_FILENO, input, sizeof input);
            taken = 0;
        }
        /* Wait for real time; after a delay the board is late, and does not hurry. */
        int64_t ahead_ns = began_ns + (int64_t)(avr->cycle * (1000.0 / 16)) - now_ns();
        struct timespec pause = {.tv_nsec = ahead_ns > 0 ? ahead_ns : 0};
        if (ahead_ns > 0) nanosleep(&pause, NULL);
        else began_ns -= ahead_ns;
    }
    return 1;
}
