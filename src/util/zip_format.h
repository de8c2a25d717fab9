/* SPDX-License-Identifier: BSD-2-Clause */
/* What ZIP files consist of, for their writer and their reader: APPNOTE.TXT 6.3 of PKWARE, chapter 4. All numbers are
 * little-endian. */
#ifndef INFTRACE_UTIL_ZIP_FORMAT_H
#define INFTRACE_UTIL_ZIP_FORMAT_H

#include <stdint.h>

#define ZIP_LOCAL 0x04034b50u /* before each member */
#define ZIP_ENTRY 0x02014b50u /* of a member, in the directory */
#define ZIP_END 0x06054b50u   /* behind the directory */
#define ZIP_LOCAL_BYTES 30    /* without the name and what may follow it */
#define ZIP_ENTRY_BYTES 46
#define ZIP_END_BYTES 22
#define ZIP_STORED 0
#define ZIP_DEFLATED 8
#define ZIP_VERSION 20 /* to extract: deflate, directories */
#define ZIP_NAME_MAX 4096
#define ZIP_MEMBERS_MAX 4096
/* Sizes and positions have 32 bits, of which this value has another meaning. */
#define ZIP_BYTES_MAX UINT64_C(0xfffffffe)

/*
 * What inftrace puts into archives beside traces. Perfetto refuses an archive with a file that it takes for none of its
 * formats, or for one that it is not; at those below a name with a dot it does not look (IsHiddenArchivePath in its sources).
 */
#define ARCHIVE_MANIFEST "perfetto_manifest.json"
#define ARCHIVE_BESIDE ".inftrace/" /* profiles and execution traces, below the name of their host where it was given */

static inline uint8_t *zip_put(uint8_t *p, uint64_t v, unsigned int bytes)
{
	while (bytes--) {
		*p++ = (uint8_t)v;
		v >>= 8;
	}
	return p;
}

static inline uint32_t zip_get(const uint8_t *p, unsigned int bytes)
{
	uint32_t v = 0;

	for (unsigned int i = 0; i < bytes; i++)
		v |= (uint32_t)p[i] << 8 * i;
	return v;
}

#endif
