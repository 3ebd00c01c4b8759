/* Moves the time of the day for the process that it is preloaded into, by the milliseconds in a file: eight bytes, as the
 * machine has them. Clocks that no one sets are left alone. */
#include <fcntl.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long shift_ms(void) {
  long long shift = 0;
  int file = open(SHIFT_FILE, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  if (read(file, &shift, sizeof shift) != (ssize_t)sizeof shift) shift = 0;
  close(file);
  return shift;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  long done = syscall(SYS_gettimeofday, now, zone);
  if (done == 0 && now != NULL) {
    long long us = now->tv_sec * 1000000LL + now->tv_usec + shift_ms() * 1000;
    now->tv_sec = us / 1000000;
    now->tv_usec = us % 1000000;
  }
  return (int)done;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  long done = syscall(SYS_clock_gettime, clock, now);
  if (done == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    long long shift = shift_ms();
    long long ns = now->tv_nsec + (shift % 1000) * 1000000;
    now->tv_sec += shift / 1000 + ns / 1000000000;
    now->tv_nsec = ns % 1000000000;
  }
  return (int)done;
}

time_t time(time_t *also) {
  struct timeval now;
  gettimeofday(&now, NULL);
  if (also != NULL) *also = now.tv_sec;
  return now.tv_sec;
}
