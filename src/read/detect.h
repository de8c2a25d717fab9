/* SPDX-License-Identifier: BSD-2-Clause */
/* Determines the kind of a file from its content. */
#ifndef INFTRACE_READ_DETECT_H
#define INFTRACE_READ_DETECT_H

#include "read/json_source.h"

enum file_kind {
	FILE_OTHER, /* neither of the others */
	FILE_PROFILE,
	FILE_TRACE,
	FILE_EXECUTION_TRACE, /* protobuf; this and the following are read by etrace.h */
	FILE_ET_PYTORCH,      /* PyTorch's JSON, also with what Chakra's linker adds */
	FILE_ET_FEEDER,       /* the JSON of Chakra's feeder */
	FILE_ET_JSONIZER,     /* what Chakra's jsonizer writes */
};

/* The kind of file, from the first buffer of a source. *ret_why (static text or in buf) for all but profiles and traces: why it is none. */
enum file_kind file_detect(const struct json_source *source, char *buf, size_t size, const char **ret_why);

#endif
