// SPDX-License-Identifier: LGPL-2.1-or-later
/* A guest on a virtual clock that holds a 32-bit version per page instead of 4 KiB, so that a terabyte fits and every page
 * can be compared. Version 0 is a page of zeros; all others are different from each other, so that a page that lands in
 * another's place shows. It knows its rules and tells when one is broken: two guests that run at once, memory that is not
 * complete when the state is loaded, writes that land after that, a hole that is read.
 *
 *   versions.c            its making, its memory, what it writes as time goes on
 *   versions_block.c      its blocks as the engine sees them, and as a simulated fabric moves them
 *   versions_dma.c        what its devices write, which no tracker sees but for the beginning
 *   versions_tracker.c    which pages were written
 *   versions_lifecycle.c  pause, save, load and so on, each with its cost, each may fail on purpose */
#ifndef RAMFERRY_GUESTS_VERSIONS_H
#define RAMFERRY_GUESTS_VERSIONS_H

#include "memory/guest.h"
#include "memory/tracker.h"

enum { RF_VERSIONS_MAX_BLOCKS = 4, RF_VERSIONS_MAX_DMA = 64 };

enum rf_versions_load {
	RF_VERSIONS_IDLE,
	RF_VERSIONS_UNIFORM, /* any page of the working set */
	RF_VERSIONS_SWEEP,   /* one after the other, over and over */
};

enum rf_versions_op {
	RF_VERSIONS_CHECK,
	RF_VERSIONS_FACTS,
	RF_VERSIONS_PREPARE,
	RF_VERSIONS_PAUSE,
	RF_VERSIONS_SAVE,
	RF_VERSIONS_LOAD_EARLY,
	RF_VERSIONS_LOAD,
	RF_VERSIONS_RESUME,
	RF_VERSIONS_UNDO,
	RF_VERSIONS_DISCARD,
	RF_VERSIONS_FINISH,
	RF_VERSIONS_DRAIN,
	RF_VERSIONS_OPS,
};

/* What both guests of a migration share: the world. */
struct rf_versions_world {
	void (*spend)(void *ctx, int64_t ns);
	void (*violate)(void *ctx, const char *sentence);
	void *ctx;
	unsigned runners; /* guests that run now */
};

struct rf_versions_spec {
	enum rf_role role;
	uint64_t seed;
	unsigned nblocks;
	uint64_t block_pages[RF_VERSIONS_MAX_BLOCKS];
	unsigned data_percent; /* of its pages; the rest are holes. At the destination: what was left there before */
	unsigned zero_percent; /* of the data are zeros */
	bool paused;           /* by its operator */
	enum rf_versions_load load;
	uint64_t writes_per_s;
	uint64_t working_pages;            /* of each block, from its start; 0: all */
	unsigned zeroing_percent;          /* of its writes make a page zero */
	uint64_t early_bytes, state_bytes; /* device state: handed out before it stands still; and after that */
	unsigned pause_holes;              /* pages that it discards last of all, and no tracker tells */
	int64_t dies_ns;                   /* what shall run it ends then; 0: never */
	unsigned save_writes;              /* pages that devices still write while their state is saved */
	int64_t cost_ns[RF_VERSIONS_OPS];
	bool fails[RF_VERSIONS_OPS]; /* after its cost */
	const char *facts;
	bool never_discards;   /* and says so */
	const char *discarder; /* what it names as giving memory back */
	uint64_t dma_per_s;    /* reads from a disk: a page is dirtied when one begins, and changes until it ends */
	int64_t dma_ns;        /* the longest of them */
	bool hides_dma;        /* and says that it has none: a bug, which a test plants */
};

struct rf_versions_dma { /* under way */
	struct rf_versions_block *block;
	uint64_t page;
	int64_t half_ns, end_ns; /* INT64_MAX: it is past its half */
};

struct rf_versions_block {
	struct rf_block block; /* first */
	struct rf_versions *guest;
	uint32_t *version, *at_pause; /* by page */
	struct rf_pages present, armed, dirty;
};

struct rf_versions {
	struct rf_guest *guest;
	struct rf_versions_world *world;
	struct rf_versions_spec spec;
	struct rf_versions_block *blocks[RF_VERSIONS_MAX_BLOCKS]; /* owned by the guest */
	const struct rf_versions *origin;                         /* destination: the guest it must equal */

	uint64_t random, writes, sweep;
	int64_t now_ns, next_write_ns, paused_ns, started_ns;
	bool running;    /* now */
	bool ran;        /* when pause() was called */
	bool resume_run; /* destination: what resume() was told */
	bool tracking;   /* between the tracker's open and close */
	unsigned calls[RF_VERSIONS_OPS], successes[RF_VERSIONS_OPS];
	struct rf_versions_dma dma[RF_VERSIONS_MAX_DMA];
	unsigned ndma;
	int64_t next_dma_ns;
	uint64_t direct_pages, staged_pages; /* sent from its memory; from a copy */
	unsigned char *state;                /* source: early_bytes and state_bytes of it */
	uint64_t state_at;                   /* how much of it was handed out; destination: was loaded */
};

void rf_versions_spec_init(struct rf_versions_spec *s, enum rf_role role, uint64_t seed);

/* The guest begins to run, unless it is paused or a destination. -1: no memory. */
int rf_versions_open(const struct rf_versions_spec *spec, struct rf_versions_world *world, struct rf_versions **out,
		     struct rf_error *e);
void rf_versions_close(struct rf_versions *g);

/* Write everything that is due until now_ns. */
void rf_versions_advance(struct rf_versions *g, int64_t now_ns);

/* Let the guest run or stand still, as its operator would. */
void rf_versions_start(struct rf_versions *g);
void rf_versions_stop(struct rf_versions *g);

/* Pages that differ from the origin as it stood at its pause. `first` (may be NULL) gets a sentence about one. */
uint64_t rf_versions_differences(const struct rf_versions *g, char *first, size_t length);

uint64_t rf_versions_present(const struct rf_versions *g); /* pages that take memory */
uint64_t rf_versions_data(const struct rf_versions *g);    /* pages that are not zero */

/* For a simulated fabric: one u32 per page instead of the page. Local memory may also be real memory that a block's
 * copy() was told to fill. */
size_t rf_versions_image_size(void *guest, uint64_t length);
void rf_versions_load_image(void *guest, const void *local, uint64_t length, void *image);
void rf_versions_store_image(void *guest, uint64_t remote, uint64_t length, const void *image);

/* Between the files of this guest. */
uint64_t rf_versions_random(struct rf_versions *g, uint64_t limit);
void rf_versions_write(struct rf_versions_block *b, uint64_t page, bool zero);
void rf_versions_touch(struct rf_versions_block *b, uint64_t page); /* what a write does but for the content */
void rf_versions_change(struct rf_versions_block *b, uint64_t page, bool zero); /* … and the content alone */
void rf_versions_advance_dma(struct rf_versions *g, int64_t now_ns);
void rf_versions_end_dma(struct rf_versions *g); /* takes its time; the guest is stopped */
void rf_versions_violate(const struct rf_versions *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
extern const struct rf_block_ops rf_versions_block_ops;
extern const struct rf_tracker_ops rf_versions_tracker;
extern const struct rf_lifecycle_ops rf_versions_lifecycle;

#endif
