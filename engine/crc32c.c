// SPDX-License-Identifier: LGPL-2.1-or-later
/* CRC32C (Castagnoli, reflected polynomial 0x82f63b78) of messages, which are few and short: bit by bit where the
 * CPU has no instruction for it. */
#include "engine/wire.h"

#include <string.h>

static uint32_t by_bits(uint32_t crc, const uint8_t *p, size_t length)
{
	while (length--) {
		crc ^= *p++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (0x82f63b78u & -(crc & 1));
	}
	return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *p, size_t length)
{
	for (; length >= 8; p += 8, length -= 8) {
		uint64_t word;
		memcpy(&word, p, 8);
		crc = (uint32_t)__builtin_ia32_crc32di(crc, word);
	}
	while (length--)
		crc = __builtin_ia32_crc32qi(crc, *p++);
	return crc;
}
#endif

uint32_t rf_crc32c(const void *data, size_t length)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("sse4.2"))
		return ~by_instruction(~0u, data, length);
#endif
	return ~by_bits(~0u, data, length);
}
