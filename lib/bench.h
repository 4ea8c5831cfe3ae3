// SPDX-License-Identifier: LGPL-2.1-or-later
/* Measuring: a move of a synthetic guest. lib/bench.c has what a program calls, bench_guest.c the guests of
 * real memory, bench_sim.c those of a simulation. */
#ifndef RAMFERRY_LIB_BENCH_H
#define RAMFERRY_LIB_BENCH_H

#include "guests/synthetic.h"
#include "lib/migration.h"

/* One of its guests; the caller of rf_synthetic_close(). -1 with RF_E_USAGE when the numbers make no sense, RF_E_REFUSED
 * when `guests` of them do not fit into free memory. */
int rf_bench_check_guest(const rf_bench_guest *guest, struct rf_error *e);
int rf_bench_check_memory(const rf_bench_guest *guest, unsigned guests, struct rf_error *e);
int rf_bench_open_guest(const rf_bench_guest *guest, enum rf_role role, struct rf_synthetic **out, struct rf_error *e);

/* A move in virtual time; `profile` is what stands behind "sim:". */
int rf_bench_simulate(rf_migration *m, const rf_bench_guest *guest, const char *profile, rf_bench_outcome *outcome,
		      struct rf_error *e);

/* CPU time of this process; monotonic time. */
int64_t rf_bench_cpu_ns(void);
int64_t rf_bench_now_ns(void);

#endif
