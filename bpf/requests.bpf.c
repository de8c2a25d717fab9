// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Requests as seen on the sockets of a server, whatever the engine: from the first bytes received
 * to the last ones written before the next are read or the socket is closed. Loaded on demand.
 *
 * Data is examined only as far as needed to tell one request from the next: whether it begins like
 * an HTTP request or answer, and whether it ends like the last part of an answer. The beginning of a request and of its answer
 * are kept, for its name and its id.
 */
#include "blocked.bpf.h"
#include "syscall_args.bpf.h"

#define SOCK_STREAM 1
#define EPIPE 32       /* <asm-generic/errno-base.h> */
#define ECONNRESET 104 /* <asm-generic/errno.h> */
#define MSG_PEEK 2
#define CONNECTIONS_MAX 1024 /* user space adds to it: requests_connections() */

/* Writes that follow within this time are one part: some servers need several calls for each part of an answer. */
#define BURST_NS 100000

/* enum request_call by number. */
const volatile u8 request_calls[512] = {};
const volatile u64 tick_ns = 0; /* length of a jiffy */

enum side {
	SIDE_UNKNOWN, /* first seen written to: within an answer, or by a client */
	SIDE_SERVER,
	SIDE_CLIENT,
};

struct connection_key {
	u32 tgid;
	u32 fd;
};

struct connection {
	struct rec_request
		r; /* so far; r.reads: 0: no request in progress. First, since user space reads it */
	u64 file;  /* its address: shows when the descriptor stands for another file */
	u64 accept_ns;
	u32 side;
	u32 ended; /* the answer was written completely */
};

/* Full: the least recently used connection is forgotten with its request. User space makes the map small if it is not
 * used, and reads what is left in it at the end. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CONNECTIONS_MAX);
	__type(key, struct connection_key);
	__type(value, struct connection);
} connections SEC(".maps");

/* A new connection; too large for a program's stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct connection);
} connection_none SEC(".maps");

/* One system call that moved data. */
struct transfer {
	u64 buf, len;   /* its first piece of memory */
	u64 from, to;   /* the time of the call */
	u64 came;	/* when the data that it read had arrived: came_ns() */
	u64 blocked;    /* its whole time, if it had to wait for something; else 0 */
	u64 head, tail; /* the first eight bytes, or fewer of the first piece; the last eight, below which are zeros if there are fewer */
	u32 bytes;
	u32 tid;
};

/* ---- contents ---- */

#define TEXT4(a, b, c, d) ((u32)(a) | (u32)(b) << 8 | (u32)(c) << 16 | (u32)(d) << 24)

static __always_inline bool is_method(u64 head)
{
	switch ((u32)head) {
	case TEXT4('G', 'E', 'T', ' '):
	case TEXT4('P', 'O', 'S', 'T'):
	case TEXT4('P', 'U', 'T', ' '):
	case TEXT4('H', 'E', 'A', 'D'):
	case TEXT4('D', 'E', 'L', 'E'):
	case TEXT4('P', 'A', 'T', 'C'):
	case TEXT4('O', 'P', 'T', 'I'):
		return 1;
	}
	return 0;
}

static __always_inline bool is_answer(u64 head)
{
	return (u32)head == TEXT4('H', 'T', 'T', 'P');
}

/* The handshake of TLS: records of the types handshake and change_cipher_spec (RFC 8446, 5.1). */
static __always_inline bool is_handshake(u64 head)
{
	return (head & 0xff) == 0x16 || (head & 0xff) == 0x14;
}

/* Whether a write is an answer's header alone, which ends with an empty line. */
static __always_inline bool is_header(const struct transfer *x)
{
	return is_answer(x->head) && x->tail >> 32 == TEXT4('\r', '\n', '\r', '\n');
}

/* Whether the header says with its last field that the answer comes in chunks: "Transfer-Encoding: chunked". */
static __always_inline bool is_header_of_chunks(const struct transfer *x)
{
	return is_header(x) && (u32)x->tail == TEXT4('n', 'k', 'e', 'd');
}

/* The last chunk, which is empty (RFC 9112, 7.1). */
static __always_inline bool is_last_chunk(const struct transfer *x)
{
	if (x->bytes == 5)
		return x->tail >> 24 == (TEXT4('0', '\r', '\n', '\r') | (u64)'\n' << 32);
	return x->tail >> 8 ==
	       (TEXT4('\r', '\n', '0', '\r') | (u64)TEXT4('\n', '\r', '\n', 0) << 32);
}

struct user_iovec {
	u64 base, len;
};

static __always_inline void head_read(struct transfer *x)
{
	u32 n = x->len < 8 ? x->len : 8;

	x->head = 0;
	barrier_var(n);
	if (n && n <= 8)
		bpf_probe_read_user(&x->head, n, (void *)x->buf);
}

/* Takes this piece's last bytes; have: how many of the pieces behind it are taken. Returns how many are then. */
static __always_inline u32 tail_read(struct transfer *x, const struct user_iovec *v, u32 have)
{
	u32 n = v->len < 8 - have ? v->len : 8 - have;
	u64 bytes = 0;

	barrier_var(n);
	if (!n || n > 8)
		return have;
	bpf_probe_read_user(&bytes, n, (void *)(v->base + v->len - n));
	x->tail |= bytes << (64 - 8 * (have + n));
	return have + n;
}

#define TAIL_PIECES 4

/* Takes the first of n pieces, and the end of the last ones. If not everything was transferred, the last byte is elsewhere. */
static __always_inline void transfer_pieces(struct transfer *x, u64 iov, u64 n)
{
	struct user_iovec v = {};
	u32 have = 0;

	bpf_probe_read_user(&v, sizeof(v), (void *)iov);
	x->buf = v.base;
	x->len = v.len;
	for (u32 i = 0; i < TAIL_PIECES && i < n && have < 8; i++) {
		bpf_probe_read_user(&v, sizeof(v), (void *)(iov + (n - 1 - i) * sizeof(v)));
		have = tail_read(x, &v, have);
	}
}

/* struct user_msghdr of <linux/socket.h>: name, namelen, then: */
struct user_pieces {
	u64 iov, n;
};
#define MSGHDR_PIECES 16

#define PIECES_TRIED 8

/* Whether a call asks for data at all: a read of no bytes returns 0, as at the end of the stream. */
static __always_inline bool asks_for_data(u32 call, const struct pt_regs *regs)
{
	struct user_pieces p = { sys_arg1(regs), sys_arg2(regs) };
	struct user_iovec v;

	if (call == REQUEST_CALL_READ || call == REQUEST_CALL_RECVFROM)
		return p.n;
	if (call == REQUEST_CALL_RECVMSG)
		bpf_probe_read_user(&p, sizeof(p), (void *)(sys_arg1(regs) + MSGHDR_PIECES));
	for (u32 i = 0; i < PIECES_TRIED && i < p.n; i++) {
		v.len = 0;
		bpf_probe_read_user(&v, sizeof(v), (void *)(p.iov + i * sizeof(v)));
		if (v.len)
			return 1;
	}
	return p.n > PIECES_TRIED;
}

static __always_inline void transfer_data(struct transfer *x, u32 call, const struct pt_regs *regs)
{
	u64 arg1 = sys_arg1(regs), arg2 = sys_arg2(regs);
	struct user_pieces p = { arg1, arg2 };

	x->buf = arg1;
	x->len = x->bytes;
	x->tail = 0;
	switch (call) {
	case REQUEST_CALL_RECVMSG:
	case REQUEST_CALL_SENDMSG:
		bpf_probe_read_user(&p, sizeof(p), (void *)(arg1 + MSGHDR_PIECES));
		/* fall through */
	case REQUEST_CALL_READV:
	case REQUEST_CALL_WRITEV:
		transfer_pieces(x, p.iov, p.n);
		break;
	default:
		tail_read(x, &(struct user_iovec){ arg1, x->bytes }, 0);
	}
	head_read(x);
}

/* ---- a request ---- */

static __always_inline u32 gap_place(u64 ns)
{
	u32 n = 0; /* log2 */

	for (u32 bits = 32; bits; bits /= 2)
		n += ns >> n >> bits ? bits : 0;
	if (n < REQUEST_GAP_LOW)
		return 0;
	if (n >= REQUEST_GAP_LOW + REQUEST_GAP_OCTAVES)
		return REQUEST_GAPS - 1;
	return (n - REQUEST_GAP_LOW) * REQUEST_GAP_PARTS +
	       ((ns >> (n - REQUEST_GAP_BITS)) & (REQUEST_GAP_PARTS - 1));
}

static __always_inline void gap_add(struct rec_request *r, u64 ns)
{
	u32 i = gap_place(ns);

	if (ns > r->longest_ns)
		r->longest_ns = ns;
	barrier_var(i);
	if (i < REQUEST_GAPS && r->gaps[i] < 0xffff)
		r->gaps[i]++;
}

__weak __noinline int request_end(struct connection *c)
{
	if (!c || !c->r.reads)
		return 0;
	if (emits(REC_REQUEST))
		emit(&c->r, sizeof(c->r), REC_REQUEST);
	c->r.reads = 0;
	return 0;
}

static __always_inline void beginning_read(char *to, u32 size, const struct transfer *x)
{
	u32 n = x->len < size ? x->len : size;

	barrier_var(n);
	if (n && n <= size)
		bpf_probe_read_user(to, n, (void *)x->buf);
}

/* The first part of an answer was written: user space looks at once for what it waited for, which it could not do later. */
static __always_inline void request_answered(const struct rec_request *r, const struct transfer *x)
{
	struct rec_hdr h;

	if (!emits(REC_ANSWERED))
		return;
	hdr_fill(&h, REC_ANSWERED, r->h.start_ns, x->to, r->h.tgid, x->tid, r->h.id, 0);
	emit(&h, sizeof(h), REC_ANSWERED);
}

__weak __noinline int request_begin(struct connection *c, const struct transfer *x, u64 tgid_fd)
{
	struct rec_request *r;
	u64 since;

	if (!c || !x)
		return 0;
	r = &c->r;
	since = r->h.start_ns + r->h.dur_ns; /* the end of the previous request */
	since = x->came > since ? x->came : since;
	hdr_fill(&r->h, REC_REQUEST, since, x->to, tgid_fd >> 32, x->tid, (u32)tgid_fd, 0);
	r->read_ns = x->to;
	r->accept_ns = c->accept_ns;
	c->accept_ns = 0;
	r->first_byte_ns = r->first_chunk_ns = r->last_chunk_ns = r->longest_ns = 0;
	r->bytes_read = r->bytes_written = r->blocked_ns = r->gone_ns = 0;
	r->reads = r->writes = r->chunks = 0;
	r->http = is_method(x->head);
	for (u32 i = 0; i < sizeof(r->gaps) / 8; i++) /* too large for a memset here */
		WRITE_ONCE(((u64 *)r->gaps)[i], 0);
	__builtin_memset(r->head, 0, sizeof(r->head));
	__builtin_memset(r->answer, 0, sizeof(r->answer));
	if (r->http)
		beginning_read(r->head, sizeof(r->head), x);
	c->ended = 0;
	return 0;
}

/* Whether these bytes are the first of a request, and not more of the current one. */
static __always_inline bool is_first(const struct connection *c, const struct transfer *x)
{
	const struct rec_request *r = &c->r;

	if (!r->reads || c->ended)
		return 1;
	if (!r->writes)
		return 0;
	/* HTTP shows where a request begins: not with a body that follows the answer "100 Continue" */
	return !r->http || is_method(x->head);
}

__weak __noinline int connection_read(struct connection *c, const struct transfer *x, u64 tgid_fd)
{
	if (!c || !x)
		return 0;
	if (c->side == SIDE_UNKNOWN && is_method(x->head))
		c->side = SIDE_SERVER;
	if (c->side != SIDE_SERVER)
		return 0;
	if (is_first(c, x)) {
		request_end(c);
		if (is_handshake(x->head))
			return 0;
		request_begin(c, x, tgid_fd);
	}
	c->r.reads++;
	c->r.bytes_read += x->bytes;
	c->r.h.dur_ns = x->to - c->r.h.start_ns;
	return 0;
}

__weak __noinline int connection_write(struct connection *c, const struct transfer *x)
{
	struct rec_request *r;
	u64 last;

	if (!c || !x)
		return 0;
	r = &c->r;
	if (is_method(x->head) && !r->http) {
		c->side = SIDE_CLIENT;
		r->reads = 0;
	}
	if (c->side != SIDE_SERVER || !r->reads || c->ended)
		return 0;
	last = r->h.start_ns + r->h.dur_ns;
	if (!r->first_byte_ns)
		r->first_byte_ns = x->to;
	if (!r->chunks && is_header_of_chunks(x))
		r->h.flags |= REQUEST_F_HEADER_ONLY;
	if (!is_header(x) && !(x->bytes == 5 && is_last_chunk(x)) &&
		(!r->chunks || x->from - last >= BURST_NS)) {
		if (r->chunks++) {
			gap_add(r, x->to - r->last_chunk_ns);
		} else {
			r->first_chunk_ns = x->to;
			r->h.flags &= ~REQUEST_F_HEADER_ONLY;
			request_answered(r, x);
		}
		r->last_chunk_ns = x->to;
	}
	if (r->http && !r->answer[0] && !is_answer(x->head))
		beginning_read(r->answer, sizeof(r->answer), x);
	r->writes++;
	r->blocked_ns += x->blocked;
	r->bytes_written += x->bytes;
	r->h.dur_ns = x->to - r->h.start_ns;
	if (r->http && is_last_chunk(x)) {
		request_end(c);
		c->ended = 1;
	}
	return 0;
}

/* Notes that the client has closed the connection while it was being answered. */
static __always_inline void connection_gone(struct connection *c, u32 call)
{
	if (!c->r.reads || c->ended)
		return;
	if (call > REQUEST_CALL_READ_LAST)
		c->r.h.flags |= REQUEST_F_FAILED;
	if (!c->r.gone_ns)
		c->r.gone_ns = now_ns();
}

/* Whether a call's result shows that the client has closed the connection: the end of the stream, or an error of a write. */
static __always_inline bool is_gone(u32 call, long ret)
{
	if (call <= REQUEST_CALL_READ_LAST)
		return !ret;
	return call <= REQUEST_CALL_SENDMSG && (ret == -EPIPE || ret == -ECONNRESET);
}

/* ---- sockets ---- */

/* The address family of a stream socket; 0: the file is something else. */
static __always_inline u32 stream_family(struct file *file)
{
	struct socket *sock;
	u32 family;

	if (file_kind(file) != FILE_SOCKET)
		return 0;
	sock = BPF_CORE_READ(file, private_data);
	if (BPF_CORE_READ(sock, type) != SOCK_STREAM)
		return 0;
	family = BPF_CORE_READ(sock, sk, __sk_common.skc_family);
	return family == AF_INET || family == AF_INET6 || family == AF_UNIX ? family : 0;
}

/* Notes when the last packet of a connection that is read came. Only once: until 6.18 at least, tcp_rcv_space_adjust() in
 * net/ipv4/tcp_input.c then sets it to now. A read of no bytes notes it, too, for the next read of the same connection. */
SEC("?tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(requests_packet, struct sock *sk)
{
	struct thread *t = enabled ? thread_of_any(bpf_get_current_task_btf()) : NULL;

	if (t && (!t->packet_us || t->packet_sk != (u64)sk)) {
		t->packet_us = BPF_CORE_READ((struct tcp_sock *)sk, tcp_mstamp);
		t->packet_sk = (u64)sk;
	}
	return 0;
}

/*
 * Returns when the data just read had arrived: the client waits from then on, however late the server reads it. The kernel
 * keeps the tick of the last data, and the time of the last packet, which brought that data unless a packet without data,
 * or a timer, came later. Then the tick must do. Ticks lag, though, where a hypervisor stops a CPU, so they are believed
 * only where they differ by several. For UNIX sockets the kernel keeps neither: returns read_ns.
 */
__weak __noinline u64 came_ns(u64 sk_address, u64 packet_us, u64 read_ns)
{
	struct sock *sk = (struct sock *)sk_address;
	u64 ticks, late, age = read_ns - boot_offset - packet_us * 1000; /* not from now: an interrupt may have come between */

	if (!is_tcp(sk))
		return read_ns;
	ticks = (u32)bpf_jiffies64() - BPF_CORE_READ((struct inet_connection_sock *)sk, icsk_ack.lrcvtime);
	late = ticks ? (ticks - 1) * tick_ns : 0; /* at least, and less than two ticks more */
	if (age + 4 * tick_ns < late || age > late + 2 * tick_ns)
		age = late;
	return read_ns > stats.start_ns + age ? read_ns - age : stats.start_ns;
}

/* Whether a read may begin a request. */
static __always_inline bool may_begin(const struct connection *c)
{
	return !c || !c->r.reads || c->r.writes;
}

static __always_inline struct connection *connection_new(
	const struct connection_key *key, u64 file, u32 family, u32 side)
{
	u32 zero = 0;
	void *none = bpf_map_lookup_elem(&connection_none, &zero);
	struct connection *c;

	if (none)
		bpf_map_update_elem(&connections, key, none, BPF_ANY);
	c = bpf_map_lookup_elem(&connections, key);
	if (!c)
		return NULL;
	c->file = file;
	c->side = side;
	c->r.family = family;
	return c;
}

/* For a socket that existed before the recording, the first data seen shows which side it is. */
static __always_inline u32 side_of(bool reads, const struct transfer *x)
{
	if (!reads)
		return is_method(x->head) ? SIDE_CLIENT : SIDE_UNKNOWN;
	return is_answer(x->head) ? SIDE_CLIENT : SIDE_SERVER;
}

/* Ends the descriptor's connection, unless the descriptor still stands for the same file. */
static __always_inline void connection_end(const struct connection_key *key, struct file *file)
{
	struct connection *c = bpf_map_lookup_elem(&connections, key);

	/* another thread may have got the descriptor already, and been recorded before this one */
	if (!c || c->file == (u64)file)
		return;
	if (!c->r.writes) /* there will be no answer any more */
		c->r.h.dur_ns = now_ns() - c->r.h.start_ns;
	request_end(c);
	bpf_map_delete_elem(&connections, key);
}

static __always_inline void connection_accept(
	const struct connection_key *key, u64 file, u32 family)
{
	struct connection *c = bpf_map_lookup_elem(&connections, key);

	if (c)
		request_end(c);
	c = connection_new(key, file, family, SIDE_SERVER);
	if (c)
		c->accept_ns = now_ns();
}

SEC("?tp_btf/sys_exit")
int BPF_PROG(requests_exit, struct pt_regs *regs, long ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 nr = sys_number(regs), call, family;
	struct connection_key key;
	struct connection *c;
	struct transfer x;
	struct thread *t;
	struct file *file;
	u64 sk;

	if (!enabled || nr >= sizeof(request_calls))
		return 0;
	barrier_var(nr);
	call = request_calls[nr & (sizeof(request_calls) - 1)];
	if (call == REQUEST_CALL_NONE || (ret <= 0 && call != REQUEST_CALL_CLOSE && !is_gone(call, ret)))
		return 0;
	t = thread_of_any(task);
	if (!t || is_compat(task))
		return 0;
	key.tgid = task->tgid;
	key.fd = call == REQUEST_CALL_ACCEPT ? ret : sys_arg0(regs);
	file = file_of_fd(task, key.fd);
	if (call == REQUEST_CALL_CLOSE) {
		connection_end(&key, file);
		return 0;
	}
	family = stream_family(file);
	if (!family)
		return 0;
	if (call == REQUEST_CALL_ACCEPT) {
		connection_accept(&key, (u64)file, family);
		return 0;
	}
	c = bpf_map_lookup_elem(&connections, &key);
	if (ret <= 0) {
		if (c && c->file == (u64)file && (ret || asks_for_data(call, regs)))
			connection_gone(c, call);
		return 0;
	}
	if ((call == REQUEST_CALL_RECVFROM && sys_arg3(regs) & MSG_PEEK) ||
		(call == REQUEST_CALL_RECVMSG && sys_arg2(regs) & MSG_PEEK))
		return 0;
	x.to = now_ns();
	x.from = t->sys_nr == nr ? t->sys_start : x.to;
	x.blocked = t->sys_nr == nr && t->sys_flags & SYSCALL_F_BLOCKED ? x.to - x.from : 0;
	x.bytes = ret;
	x.tid = task->pid;
	transfer_data(&x, call, regs);
	if (c && c->file != (u64)file) { /* the old one was closed in a way that is not seen here */
		request_end(c);
		c = NULL;
	}
	if (!c)
		c = connection_new(
			&key, (u64)file, family, side_of(call <= REQUEST_CALL_READ_LAST, &x));
	if (!c)
		return 0;
	x.came = x.to;
	if (call <= REQUEST_CALL_READ_LAST && may_begin(c)) {
		sk = (u64)sock_of_file(file);
		x.came = came_ns(sk, t->packet_sk == sk ? t->packet_us : 0, x.to);
	}
	t->packet_us = 0;
	if (call <= REQUEST_CALL_READ_LAST)
		connection_read(c, &x, (u64)key.tgid << 32 | key.fd);
	else
		connection_write(c, &x);
	return 0;
}
