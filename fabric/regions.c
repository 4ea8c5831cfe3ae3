// SPDX-License-Identifier: LGPL-2.1-or-later
#include "fabric/regions.h"

#include "common/checked.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

struct rf_region {
	uint64_t start, length;
	uint64_t key;
	unsigned users;
	struct rf_event_node *released; /* removed; told when users is 0 */
};

/* Regions are few (thousands: one a chunk) and live long; slots are used again, regions stay where they are. */
struct rf_regions {
	pthread_mutex_t lock;
	struct rf_events *events;
	struct rf_region **slots;
	uint32_t count, room;
	uint32_t lowest_empty; /* no slot below it is empty */
	uint32_t serial;
};

struct rf_regions *rf_regions_open(struct rf_events *events)
{
	struct rf_regions *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	pthread_mutex_init(&r->lock, NULL);
	r->events = events;
	return r;
}

void rf_regions_close(struct rf_regions *r)
{
	if (!r)
		return;
	for (uint32_t i = 0; i < r->count; i++) {
		assert(!r->slots[i] || !r->slots[i]->users);
		free(r->slots[i]);
	}
	free(r->slots);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

/* An empty slot's number, or the count when there is no memory for another. Called with the lock held. */
static uint32_t empty_slot(struct rf_regions *r)
{
	while (r->lowest_empty < r->count && r->slots[r->lowest_empty])
		r->lowest_empty++;
	if (r->lowest_empty < r->count)
		return r->lowest_empty;
	if (r->count == r->room) {
		uint32_t room = r->room ? 2 * r->room : 64;
		struct rf_region **slots = realloc(r->slots, room * sizeof(*slots));

		if (!slots)
			return r->count;
		r->slots = slots;
		r->room = room;
	}
	r->slots[r->count] = NULL;
	return r->count++;
}

int rf_regions_add(struct rf_regions *r, void *address, uint64_t length, struct rf_key *key)
{
	struct rf_region *region = calloc(1, sizeof(*region));
	bool added = false;

	if (!region)
		return -1;
	region->start = (uintptr_t)address;
	region->length = length;
	pthread_mutex_lock(&r->lock);
	uint32_t slot = empty_slot(r);
	if (slot < r->count) {
		/* Serial 0 is left out, so that a key of zeros opens nothing. */
		r->serial += r->serial == UINT32_MAX ? 2 : 1;
		region->key = (uint64_t)r->serial << 32 | slot;
		r->slots[slot] = region;
		*key = (struct rf_key){.value = {region->key}};
		added = true;
	}
	pthread_mutex_unlock(&r->lock);
	if (!added)
		free(region);
	return added ? 0 : -1;
}

/* Called with the lock held. NULL: the key opens nothing. */
static struct rf_region *find(const struct rf_regions *r, uint64_t key)
{
	uint32_t slot = (uint32_t)key;
	struct rf_region *region = slot < r->count ? r->slots[slot] : NULL;

	return region && region->key == key && !region->released ? region : NULL;
}

/* A removed region without users goes. Called with the lock held. */
static void retire(struct rf_regions *r, struct rf_region *region)
{
	if (!region->released || region->users)
		return;
	rf_events_post(r->events, region->released);
	r->slots[(uint32_t)region->key] = NULL;
	if ((uint32_t)region->key < r->lowest_empty)
		r->lowest_empty = (uint32_t)region->key;
	free(region);
}

bool rf_regions_remove(struct rf_regions *r, struct rf_key key, struct rf_event_node *released)
{
	pthread_mutex_lock(&r->lock);
	struct rf_region *region = find(r, key.value[0]);

	if (region) {
		region->released = released;
		retire(r, region);
	}
	pthread_mutex_unlock(&r->lock);
	return region != NULL;
}

/* Written so that no sum of two of the peer's numbers is ever made. */
static bool allowed(const struct rf_region *region, const struct rf_target *t)
{
	return region && t->length && t->address >= region->start &&
	       rf_range_within(t->address - region->start, t->length, region->length);
}

static void let_go(struct rf_regions *r, struct rf_region *const *held, unsigned held_count)
{
	for (unsigned i = 0; i < held_count; i++) {
		assert(held[i]->users);
		held[i]->users--;
		retire(r, held[i]);
	}
}

/* One lock for a batch of up to a thousand targets, which seldom lie in more than a few regions. */
bool rf_regions_hold(struct rf_regions *r, const struct rf_target *targets, unsigned count, struct rf_region **held,
		     unsigned *held_count, unsigned *bad)
{
	unsigned n = 0, i;

	pthread_mutex_lock(&r->lock);
	for (i = 0; i < count; i++) {
		struct rf_region *region = find(r, targets[i].key);

		if (!allowed(region, &targets[i]))
			break;
		if (n && held[n - 1] == region)
			continue;
		region->users++;
		held[n++] = region;
	}
	if (i < count) {
		*bad = i;
		let_go(r, held, n);
		n = 0;
	}
	pthread_mutex_unlock(&r->lock);
	*held_count = n;
	return i == count;
}

void rf_regions_let_go(struct rf_regions *r, struct rf_region *const *held, unsigned held_count)
{
	pthread_mutex_lock(&r->lock);
	let_go(r, held, held_count);
	pthread_mutex_unlock(&r->lock);
}
