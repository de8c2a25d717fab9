/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The nodes of every graph that llama.cpp computes, as the engine passes them to its callback for
 * this (llama_context_params.cb_eval): one JSON line each, in order,
 *
 *   {"step":0,"op":"mul_mat","name":"Qcur-0","type":"f32","ne":[256,11,1,1],
 *    "src0":{"name":"blk.0.attn_q.weight","type":"f16","ne":[256,256,1,1]}}
 *
 * and, for the node that chooses experts, "ids": a list for each token. Only that node is computed
 * together with all before it, so that it can be read; otherwise the graphs are not changed.
 */
#ifndef TEST_NODES_H
#define TEST_NODES_H

#include <stdbool.h>

struct node_log;

/* Once libggml-base is loaded for all. Returns 0, or -1 and has said why. */
int node_log_open(const char *path, struct node_log **ret_log);

/* The nodes that follow are of this step. */
void node_log_step(struct node_log *log, unsigned int step);

/* ggml_backend_sched_eval_callback; data: the log. */
bool node_log_eval(void *tensor, bool ask, void *data);

/* Returns 0, or -1 and has said why: not all could be written, or a tensor does not have the layout
 * that nodes.c expects. */
int node_log_close(struct node_log *log);

#endif
