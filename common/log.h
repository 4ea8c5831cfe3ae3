// SPDX-License-Identifier: LGPL-2.1-or-later
/* Where log sentences go: a callback of the caller. May be called from worker threads; lib/ makes calls one at a time. */
#ifndef RAMFERRY_COMMON_LOG_H
#define RAMFERRY_COMMON_LOG_H

enum rf_log_level { RF_LOG_DEBUG, RF_LOG_INFO, RF_LOG_WARNING };

struct rf_log {
	void (*write)(void *arg, enum rf_log_level level, const char *sentence); /* NULL: nobody listens */
	void *arg;
};

/* `log` may be NULL. The sentence ends without newline. */
void rf_log(const struct rf_log *log, enum rf_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
