// SPDX-License-Identifier: BSD-2-Clause
#include "schema/proto.h"

char *proto_text(char *p, uint32_t field, const char *s, size_t len)
{
	char *mark;

	p = proto_open(p, field, &mark);
	while (len) {
		int n = fmt_utf8_scan((const unsigned char *)s, len);
		size_t part = n > 0 ? (size_t)n : (size_t)-n;

		p = n > 0 ? fmt_str(p, s, part) : fmt_lit(p, "\xef\xbf\xbd");
		s += part;
		len -= part;
	}
	return proto_close(mark, p);
}
