/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libramferry: live migration of a virtual machine's memory.
 *
 * A guest (rf_guest) is memory blocks plus callbacks that stop it, save and load its device state and run it. A migration
 * (rf_migration) takes a guest to or from another host:
 *
 *     rf_migration *m = rf_migration_new(guest);
 *     rf_set(m, "max-bandwidth", "10Gbit");
 *     if (rf_send(m, "tcp://host-b") != RF_OK)
 *             fprintf(stderr, "%s\n", rf_error(m));
 *     rf_migration_free(m);
 *     rf_guest_free(guest);
 *
 * The library prints nothing, never exits, keeps no global state, installs no signal handler and forks no process.
 * Different migrations may run at once in different threads. One migration is used by one thread at a time, but for
 * rf_cancel(). Sizes are bytes, times nanoseconds.
 */
#ifndef RAMFERRY_H
#define RAMFERRY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RF_API __attribute__((visibility("default")))

typedef struct rf_guest rf_guest;
typedef struct rf_migration rf_migration;

/* What a call came to. All but RF_CANCELLED are the exit statuses of ramferry(1). */
typedef enum rf_result {
	RF_OK = 0,        /* done; after rf_send(): the guest runs at the other side and never again here */
	RF_FAILED = 1,    /* the source's guest is as it was; the destination's will never run */
	RF_USAGE = 2,     /* an argument makes no sense; nothing was touched */
	RF_REFUSED = 3,   /* this cannot work; nothing was touched */
	RF_UNKNOWN = 4,   /* the guest may run at the other side, or could not be put back here: somebody has to look */
	RF_CANCELLED = 5, /* as RF_FAILED, because of rf_cancel() */
} rf_result;

/* ---- Guests ---------------------------------------------------------------------------------------------------- */

/* What the library asks of the program that runs the guest. All calls block as long as they need, come from threads
 * of the library, one at a time for each guest, and return 0 or, with a sentence in `why`, -1. NULL members are
 * successes that do nothing, except `pause` and `resume`, which must be given. Set `size` to sizeof(rf_guest_ops).
 *
 *     source       facts, prepare, (drain,) pause, save, finish   a failure before the hand-off: undo, whatever was reached
 *     destination  facts, prepare, load, resume                   a failure before it runs: discard
 */
typedef struct rf_guest_ops {
	size_t size;

	/* What the other side must have too, one "key=value" per line. The lines of both sides are compared. */
	int (*facts)(void *ctx, char *text, size_t length, char *why, size_t why_length);

	/* Both sides have agreed and memory will be touched from now on. `destination` is 1 there and 0 at the source. */
	int (*prepare)(void *ctx, int destination, char *why, size_t why_length);

	/* Source: stop the guest and wait until no device writes into its memory. *was_running: what the destination
	 * shall restore. */
	int (*pause)(void *ctx, int *was_running, char *why, size_t why_length);

	/* Source, paused: hand the device state to write(sink, …), in pieces of any size; stop when it returns -1. The
	 * guest's memory may still be written to until this returns; what it gave back (balloon) it has given back before. */
	int (*save)(void *ctx, int (*write)(void *sink, const void *data, size_t length), void *sink, char *why,
		    size_t why_length);

	/* Destination: memory is complete; take the device state, all of it at once. */
	int (*load)(void *ctx, const void *state, size_t length, char *why, size_t why_length);

	/* Destination: the guest is ours. Run it if `run`. On failure it must not have run. */
	int (*resume)(void *ctx, int run, char *why, size_t why_length);

	/* Source: the move failed: as if nothing had happened, running if it ran. */
	int (*undo)(void *ctx, char *why, size_t why_length);

	/* Destination: the move failed: make sure that this guest can never run. 0 only when that is certain. */
	int (*discard)(void *ctx, char *why, size_t why_length);

	/* Source: the guest runs at the other side. It must never run here again. */
	int (*finish)(void *ctx, char *why, size_t why_length);

	/* Tracker "callback" (source; NULL: there is none): OR into `bitmap` the 4 KiB pages of the block's range [first,
	 * first + count) that were written since the last call, bit 0 being page `first`, and forget them, atomically
	 * per page. `first` is a multiple of 4096. The first call for a range starts tracking and its bits are ignored.
	 * Several calls may run at once, for different ranges. */
	int (*collect)(void *ctx, unsigned block, uint64_t first, uint64_t count, uint64_t *bitmap, char *why,
		       size_t why_length);
	void (*stop_tracking)(void *ctx);

	/* rf_guest_free() was called. */
	void (*close)(void *ctx);

	/* Source, before pause; given by a guest into whose memory something writes unseen by the tracker but for the beginning:
	 * direct I/O (a page is pinned when a read begins, and the data lands later), SCSI passthrough. Let all that has begun
	 * come to its end, while nothing new begins; stop the guest for it if need be, and run it again unless it was stopped
	 * before. Called a few times in a move. NULL: nothing does that. `pause` must see to the same. */
	int (*drain)(void *ctx, char *why, size_t why_length);
} rf_guest_ops;

/* A guest in this process. `ops` is copied. NULL: no memory, or `ops` lacks pause or resume. */
RF_API rf_guest *rf_guest_new(const rf_guest_ops *ops, void *ctx);

/* Add a block of `length` bytes (a multiple of 4096) at `memory`, a shared mapping of `fd` from `fd_offset` on; or of
 * any memory, with fd -1: then what holds no data is found by reading. Name, length and order must be the same at
 * both sides. At the destination the block is emptied when the migration starts. The memory stays the caller's and
 * must outlive the guest. RF_USAGE with a sentence in `why`. */
RF_API rf_result rf_guest_add_block(rf_guest *guest, const char *name, void *memory, uint64_t length, int fd,
				    uint64_t fd_offset, char *why, size_t why_length);

/* What in the guest gives pages back to the host (a balloon, free page reporting), so that they become holes and zeros
 * without having been written? `what` names it for people; NULL: nothing ever does, which spares a move the search for
 * such holes, and which RDMA cards need to hear, because they would go on sending the old page. Unless this is called,
 * something may. RF_USAGE: for a guest of rf_guest_open_qemu(), which finds out by itself. */
RF_API rf_result rf_guest_set_discarder(rf_guest *guest, const char *what);

/* The guest of a running, unmodified QEMU whose QMP monitor listens at the unix socket `qmp`. `pid` is its process, or 0
 * to take the socket's owner. Nothing of it is touched before rf_send() or rf_receive().
 * RF_REFUSED with a sentence in `why`: no QEMU there, too old a QEMU, somebody else uses the monitor. */
RF_API rf_result rf_guest_open_qemu(rf_guest **out, const char *qmp, int pid, char *why, size_t why_length);

/* Free a guest that no migration uses any more. NULL is fine. */
RF_API void rf_guest_free(rf_guest *guest);

/* ---- Migrations ------------------------------------------------------------------------------------------------ */

/* A migration of `guest`, which must outlive it. Used for one rf_send() or rf_receive(). NULL: no memory.
 * With `guest` NULL it can only check options and URIs: rf_send() and rf_receive() say RF_USAGE for a URI that makes no
 * sense and RF_REFUSED for any other. */
RF_API rf_migration *rf_migration_new(rf_guest *guest);
RF_API void rf_migration_free(rf_migration *m);

/* Set the option `name` (see rf_option_info()) to `value`, written as on the command line. RF_USAGE otherwise. */
RF_API rf_result rf_set(rf_migration *m, const char *name, const char *value);

/* Move the guest to the receiver at `uri` (tcp://host[:port], rdma://host[:port]). Blocks until the move has ended one way
 * or the other. */
RF_API rf_result rf_send(rf_migration *m, const char *uri);

/* Wait at `uri` for a guest and run it: tcp://address[:port] or rdma://address[:port], an empty address for all, port 0
 * for any (the log tells it). Blocks until the guest runs here or the move has failed. */
RF_API rf_result rf_receive(rf_migration *m, const char *uri);

/* End the migration as soon as it can be done safely: up to the hand-off the source's guest runs on, after it nothing
 * changes. From any thread or signal handler; also before rf_send(). */
RF_API void rf_cancel(rf_migration *m);

/* One sentence about the last call that did not return RF_OK; "" if there is none. Valid until the next call. */
RF_API const char *rf_error(const rf_migration *m);

/* ---- What it says while it runs ----------------------------------------------------------------------------------- */

typedef enum rf_log_severity { RF_DEBUG, RF_INFO, RF_WARNING } rf_log_severity;

/* One sentence at a time, without newline; from any of the library's threads, never two at once. */
RF_API void rf_on_log(rf_migration *m, void (*fn)(void *arg, rf_log_severity severity, const char *sentence),
		      void *arg);

typedef enum rf_phase {
	RF_PHASE_LISTENING,  /* destination: waiting for a source */
	RF_PHASE_SETUP,      /* connected; comparing, preparing, first scan */
	RF_PHASE_ROUNDS,     /* the guest runs and its memory is copied */
	RF_PHASE_SWITCHOVER, /* the guest stands still */
	RF_PHASE_RUNNING,    /* it is the destination's: it runs there, or is about to */
	RF_PHASE_UNDOING,    /* the move has failed; the source is put back */
} rf_phase;

typedef struct rf_progress {
	size_t size; /* sizeof(rf_progress) of the library */
	rf_phase phase;
	int round_ended;                 /* 1: this is the last report of this round */
	uint64_t round;                  /* 0 is the first */
	uint64_t sent_bytes;             /* page data so far, of all rounds */
	uint64_t left_bytes;             /* of this round */
	uint64_t dirty_bytes;            /* found by this round's sync so far, zero pages included; 0 in round 0 */
	uint64_t bytes_per_second;       /* over this round */
	uint64_t dirty_bytes_per_second; /* of the last full round */
	uint64_t predicted_downtime_ns;  /* if it were stopped now; 0: not known yet */
	uint64_t elapsed_ns;             /* since the peer was there */
} rf_progress;

/* At least at every change of phase, at the end of every round and ten times a second. From the thread that called
 * rf_send() or rf_receive(). */
RF_API void rf_on_progress(rf_migration *m, void (*fn)(void *arg, const rf_progress *progress), void *arg);

/* Statistics by name; names and meanings follow QEMU's query-migrate where it has the same. rf_stat_name() lists them
 * (NULL past the end), units stand in the names. rf_stat(): 0, or -1 for no such name. Good at any time from the
 * thread that uses the migration, its callbacks included. */
RF_API const char *rf_stat_name(size_t index);
RF_API const char *rf_stat_help(size_t index);
RF_API int rf_stat(const rf_migration *m, const char *name, uint64_t *value);

/* The same for each round that has ended. The final pass is the last. */
RF_API size_t rf_round_count(const rf_migration *m);
RF_API const char *rf_round_stat_name(size_t index);
RF_API const char *rf_round_stat_help(size_t index);
RF_API int rf_round_stat(const rf_migration *m, size_t round, const char *name, uint64_t *value);

/* ---- Options ------------------------------------------------------------------------------------------------------- */

typedef struct rf_option_info {
	const char *name; /* "chunk-size" */
	const char *kind; /* "size", "rate", "duration", "count", "choice", "flag", "name" */
	int for_send, for_receive;
	char range[160];  /* "1 MiB to 1 GiB, a power of two" */
	char initial[64]; /* "64 MiB" */
	const char *help;
} rf_option_info;

/* The option at `index` of the one table; 0, or -1 past the end. */
RF_API int rf_option_info_at(size_t index, rf_option_info *info);

/* ---- The doctor ---------------------------------------------------------------------------------------------------- */

typedef enum rf_verdict {
	RF_VERDICT_OK,     /* as it should be */
	RF_VERDICT_ADVICE, /* moves work without, and better with */
	RF_VERDICT_NEEDED, /* the move that is asked about cannot work before this is done */
} rf_verdict;

typedef struct rf_finding {
	size_t size; /* sizeof(rf_finding) of the library */
	rf_verdict verdict;
	const char *area;    /* "tracker", "limit", "tcp", "rdma", "guest", "receiver" */
	const char *what;    /* of it: "wp-async", "rxe0 port 1" */
	const char *text;    /* what was found, one line */
	const char *advice;  /* what to do about it; "" where it is ok or the text tells it */
	const char *measure; /* the name of `value`, with its unit, as "round_trip_ns"; NULL: there is no number */
	uint64_t value;
} rf_finding;

/* Look whether moves can work, touching nothing: what this host offers; the guest of `m`, if it has one (the refusals of
 * rf_send(), or of rf_receive() if it waits for a guest); and with `uri`, which may be NULL, the receiver that waits there:
 * round trip and bandwidth to it are measured, in its own scratch memory, and it goes on waiting. The options of `m` say
 * what kind of move is meant. `m` can be used for rf_send() or rf_receive() afterwards.
 *
 * Each finding goes to fn(arg, …) at once; what it points to is valid during the call. RF_OK: nothing is in the way.
 * RF_REFUSED: there were findings with RF_VERDICT_NEEDED. RF_USAGE: the URI makes no sense. */
RF_API rf_result rf_doctor(rf_migration *m, const char *uri, void (*fn)(void *arg, const rf_finding *finding),
			   void *arg);

/* ---- Measuring ----------------------------------------------------------------------------------------------------- */

/* Read one value, written as on the command line: `kind` is that of an option ("size", "rate", "duration", "count"; see
 * rf_option_info). RF_USAGE with a sentence in `why`. */
RF_API rf_result rf_parse_value(const char *kind, const char *text, uint64_t *value, char *why, size_t why_length);

typedef enum rf_bench_pattern { RF_BENCH_RANDOM, RF_BENCH_SWEEP } rf_bench_pattern;

#define RF_BENCH_NO_LIMIT UINT64_MAX

/* A guest to measure with: memory full of data, and threads that write to it at a known rate. */
typedef struct rf_bench_guest {
	size_t size;               /* sizeof(rf_bench_guest) */
	uint64_t memory_bytes;     /* a multiple of 4096 */
	unsigned writers;          /* 0: it is idle */
	uint64_t working_bytes;    /* of each writer, for itself: a multiple of 4096, at most memory_bytes / writers */
	uint64_t bytes_per_second; /* of pages written to, by all writers; RF_BENCH_NO_LIMIT: as fast as they can */
	rf_bench_pattern pattern;  /* a random page of the working set, or one after the other */
	uint64_t seed;             /* of all that is random in it; and of what is random in a simulation */
} rf_bench_guest;

/* What a move tells besides its statistics. */
typedef struct rf_bench_outcome {
	size_t size;            /* sizeof(rf_bench_outcome) of the library */
	int virtual_time;       /* 1: all times but real_ns and cpu_ns are of a simulation */
	uint64_t written_bytes; /* pages that the writers wrote to, one as often as it was */
	uint64_t ran_ns;        /* how long they wrote */
	uint64_t real_ns;       /* how long the move took from outside, both sides together */
	uint64_t cpu_ns;        /* that it took this process, writers left out */
} rf_bench_outcome;

/* Measure one move of such a guest. `m` was made by rf_migration_new(NULL); its options count, its callbacks are called,
 * rf_cancel() ends it, and afterwards it has the statistics. It is used up by that. `outcome` may be NULL.
 *
 * rf_bench_move() has both sides in this process: `uri` is where the receiver listens, as for rf_receive(), best with port 0
 * (tcp://127.0.0.1:0; rdma:// with an address of this host's card), or sim:PROFILE, which is a model of hosts and cards on
 * a virtual clock. The memory of both sides is compared afterwards: RF_FAILED if a page differs.
 * rf_bench_send() moves to an rf_bench_receive() elsewhere, whose guest has the same memory_bytes; rf_bench_receive() waits
 * for one.
 *
 * Results as of rf_send() and rf_receive(); RF_USAGE also when the guest makes no sense, RF_REFUSED when it is larger than
 * the memory that is free here. */
RF_API rf_result rf_bench_move(rf_migration *m, const rf_bench_guest *guest, const char *uri,
			       rf_bench_outcome *outcome);
RF_API rf_result rf_bench_send(rf_migration *m, const rf_bench_guest *guest, const char *uri,
			       rf_bench_outcome *outcome);
RF_API rf_result rf_bench_receive(rf_migration *m, const rf_bench_guest *guest, const char *uri,
				  rf_bench_outcome *outcome);

/* "0.1.0" */
RF_API const char *rf_version(void);

#ifdef __cplusplus
}
#endif

#endif
