// SPDX-License-Identifier: BSD-2-Clause
#include "capture/maps.h"

#include <bpf/bpf.h>
#include <stdint.h>
#include <stdlib.h>

void map_clear(int fd)
{
	uint64_t key;

	while (!bpf_map_get_next_key(fd, NULL, &key)) {
		if (bpf_map_delete_elem(fd, &key))
			break;
	}
}

void map_zero(int fd)
{
	struct bpf_map_info info = {};
	uint32_t len = sizeof(info);
	void *zero;

	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return;
	zero = calloc(1, info.value_size);
	for (uint32_t i = 0; zero && i < info.max_entries; i++)
		bpf_map_update_elem(fd, &i, zero, BPF_ANY);
	free(zero);
}
