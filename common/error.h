// SPDX-License-Identifier: LGPL-2.1-or-later
/* An error is a code plus one sentence. The place that notices it writes the sentence; callers further out put
 * what they were doing in front of it with rf_wrap(). Nothing below cli/ prints. */
#ifndef RAMFERRY_COMMON_ERROR_H
#define RAMFERRY_COMMON_ERROR_H

/* The codes are the exit statuses of ramferry(1); lib/ pins them to the public RF_* codes. */
enum rf_code {
	RF_E_NONE = 0,
	RF_E_FAILED = 1,    /* the move failed; the source's guest is as it was */
	RF_E_USAGE = 2,     /* what the caller asked for makes no sense */
	RF_E_REFUSED = 3,   /* refused before anything was touched */
	RF_E_UNKNOWN = 4,   /* the guest may run at the other side: somebody has to look */
	RF_E_CANCELLED = 5, /* as RF_E_FAILED, because somebody asked for it */
};

struct rf_error {
	enum rf_code code;
	char text[500]; /* without a full stop or newline at its end */
};

/* Each sets *e (which may be NULL) and returns -1, so that `return rf_fail(e, ...)` reads as one step. */
int rf_fail(struct rf_error *e, enum rf_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* As rf_fail, with ": " and the text of `error_number` (an errno value) at the end. */
int rf_fail_errno(struct rf_error *e, enum rf_code code, int error_number, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Put "context: " in front of the sentence; the code stays. Returns -1. */
int rf_wrap(struct rf_error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Forget what is in *e. */
void rf_error_clear(struct rf_error *e);

#endif
