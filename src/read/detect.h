/* SPDX-License-Identifier: BSD-2-Clause */
/* Determines the kind of a file from its content. */
#ifndef INFTRACE_READ_DETECT_H
#define INFTRACE_READ_DETECT_H

#include "read/json_source.h"

enum file_kind {
	FILE_OTHER, /* none of the others */
	FILE_PROFILE,
	FILE_TRACE,
	FILE_EXECUTION_TRACE, /* protobuf; this and the following are read by etrace.h */
	FILE_ET_PYTORCH,      /* PyTorch's JSON, with or without the additions of Chakra's linker */
	FILE_ET_FEEDER,       /* the JSON of Chakra's feeder */
	FILE_ET_JSONIZER,     /* the JSON of Chakra's jsonizer */
};

/* Tells the kind of file from a source's first buffer. Unless it is a profile or trace, *ret_why (static or in buf) says why not. */
enum file_kind file_detect(const struct json_source *source, char *buf, size_t size, const char **ret_why);

#endif
