// SPDX-License-Identifier: LGPL-2.1-or-later
/* What `ramferry doctor` says: findings, one line each, from all over the house to whoever listens. */
#ifndef RAMFERRY_COMMON_FINDINGS_H
#define RAMFERRY_COMMON_FINDINGS_H

#include <stdint.h>

enum rf_finding_verdict {                  /* lib/ pins them to the public RF_VERDICT_* */
			  RF_FOUND_OK,     /* as it should be */
			  RF_FOUND_ADVICE, /* moves work without, and better with */
			  RF_FOUND_NEEDED, /* what was asked for cannot work before this is done */
};

struct rf_found {
	enum rf_finding_verdict verdict;
	const char *area, *what; /* "rdma", "rxe0 port 1" */
	const char *text;        /* what was found */
	const char *advice;      /* what to do; "": ok, or the text tells it */
	const char *measure;     /* the name of `value`, with its unit; NULL: there is none */
	uint64_t value;
};

struct rf_findings {
	void (*add)(void *arg, const struct rf_found *found); /* texts are valid during the call */
	void *arg;
};

/* `advice` NULL: ok needs none. The text is formatted. */
void rf_found(const struct rf_findings *f, enum rf_finding_verdict verdict, const char *area, const char *what,
	      const char *advice, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* One that is ok and has a number for programs. */
void rf_found_value(const struct rf_findings *f, const char *area, const char *what, const char *measure,
		    uint64_t value, const char *format, ...) __attribute__((format(printf, 6, 7)));

#endif
