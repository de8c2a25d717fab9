/* SPDX-License-Identifier: BSD-2-Clause */
#define bpf_core_field_exists(field) 1
#define bpf_core_type_exists(type) 0
#define bpf_core_field_offset(type, field) 0
#define BPF_CORE_READ(from, ...) 0
