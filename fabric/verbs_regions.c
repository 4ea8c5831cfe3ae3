// SPDX-License-Identifier: LGPL-2.1-or-later
/* The table of registrations.
 *
 * A key holds what cards want, the remote key below and the local one above, and the place and serial number of the
 * registration in our table, so that a key that was released never names a later registration. What a card accepts is the
 * card's affair: it knows the remote key alone. */
#include "fabric/verbs.h"

#include <stdlib.h>
#include <string.h>

enum { NO_REGION = UINT32_MAX };

static int grow(struct rf_verbs *v)
{
	uint32_t room = v->region_room ? 2 * v->region_room : 64;
	struct rf_verbs_region *more = realloc(v->regions, room * sizeof(*more));

	if (!more)
		return -1;
	memset(more + v->region_room, 0, (room - v->region_room) * sizeof(*more));
	v->regions = more;
	v->region_room = room;
	return 0;
}

int rf_verbs_add_region(struct rf_verbs *v, struct ibv_mr *mr, struct rf_key *key)
{
	uint32_t at;

	pthread_mutex_lock(&v->lock);
	at = v->free_region;
	if (at != NO_REGION) {
		v->free_region = v->regions[at].next_free;
	} else if (v->region_count < v->region_room || grow(v) == 0) {
		at = v->region_count++;
	} else {
		pthread_mutex_unlock(&v->lock);
		return -1;
	}
	v->regions[at].mr = mr;
	key->value[0] = (uint64_t)mr->lkey << 32 | mr->rkey;
	key->value[1] = (uint64_t)++v->regions[at].serial << 32 | (at + 1);
	pthread_mutex_unlock(&v->lock);
	return 0;
}

struct ibv_mr *rf_verbs_take_region(struct rf_verbs *v, struct rf_key key)
{
	uint32_t at = (uint32_t)key.value[1] - 1, serial = (uint32_t)(key.value[1] >> 32);
	struct ibv_mr *mr = NULL;

	pthread_mutex_lock(&v->lock);
	if (at < v->region_count && v->regions[at].serial == serial && v->regions[at].mr &&
	    key.value[0] == ((uint64_t)v->regions[at].mr->lkey << 32 | v->regions[at].mr->rkey)) {
		mr = v->regions[at].mr;
		v->regions[at].mr = NULL;
		v->regions[at].next_free = v->free_region;
		v->free_region = at;
	}
	pthread_mutex_unlock(&v->lock);
	return mr;
}

void rf_verbs_regions_free(struct rf_verbs *v)
{
	for (uint32_t i = 0; i < v->region_count; i++)
		if (v->regions[i].mr)
			ibv_dereg_mr(v->regions[i].mr);
	free(v->regions);
	v->regions = NULL;
	v->region_count = v->region_room = 0;
	v->free_region = NO_REGION;
}
