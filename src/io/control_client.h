/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The side of the control socket (control.h) that asks: which recordings there are, and what they
 * answer. No call waits longer than the times below, also for a recorder that is stopped. Answers
 * are another process's words: print them with json_printable().
 *
 *     struct control_peer p;
 *
 *     err = control_find(NULL, pid, &p);        prints a line on failure
 *     if (!err)
 *             err = control_ask(&p, "status", NULL, &reply);   the same
 *     ...
 *     json_object_put(reply);
 *     control_peer_free(&p);
 */
#ifndef INFTRACE_CONTROL_CLIENT_H
#define INFTRACE_CONTROL_CLIENT_H

#include <json-c/json.h>
#include <stddef.h>
#include <sys/types.h>

#include "io/control.h"

#define CONTROL_ANSWER_MS 5000  /* until a recorder says something, or has room for a client */
#define CONTROL_FINISH_MS 30000 /* until it is done with what it has taken */

struct control_peer {
	pid_t pid;                   /* of the recorder */
	uid_t uid;                   /* that it runs as */
	char *path;                  /* of its socket */
	struct json_object *status;  /* what it said when it was found; NULL: nothing */
	char error[CONTROL_MSG_MAX]; /* why not */
};

/*
 * The recordings that this user may talk to, by pid, with their status: in `folder`, or NULL: in
 * control_folder() and, for root, those of all users. pid: those that -p PID means: by that
 * recorder, else of that process, else of all processes, else any that does not answer; 0: all
 * there are. Sockets without a recorder are left out. The array is freed with control_peers_free().
 * 0, -ENOMEM.
 */
int control_list(const char *folder, pid_t pid, struct control_peer **ret_peers, size_t *ret_n);
void control_peers_free(struct control_peer *peers, size_t n);
void control_peer_free(struct control_peer *peer);

/*
 * The one recording that -p PID means; 0: the only one there is. Prints a line on failure, of
 * several also a list of them. -ENOENT: none; -ENOTUNIQ: several; -ETIMEDOUT: it does not answer;
 * -ENOMEM.
 */
int control_find(const char *folder, pid_t pid, struct control_peer *ret_peer);

/* Prints that there is none, or none of that process. */
void control_say_none(pid_t pid);

/* What it records: "llama-server (4711), worker (4712)" or "all processes", cut to fit. Names of
 * processes are as they are. Returns buf. */
const char *control_peer_targets(const struct control_peer *peer, char *buf, size_t size);

/*
 * Asks for a command, with a reason or NULL. *ret_reply: the answer, with "ok" true, to be put by
 * the caller. Prints a line on failure: -ETIMEDOUT: no answer; -ESRCH: the recording has ended;
 * -EREMOTEIO: it said no; -EPROTO: it talks nonsense; -EACCES.
 */
int control_ask(const struct control_peer *peer, const char *command, const char *reason,
	struct json_object **ret_reply);

#endif
