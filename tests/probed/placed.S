/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions whose first instructions are what a probe may meet, and are run by call_placed.c:
 *
 *	uint64_t f(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t *cell, uint64_t g)
 *
 * returns a + b where the macro below says so. Listed in placed.h.
 */
#include <asm/unistd.h>

	.text

	.macro	function name
	.p2align 4
	.globl	\name
	.type	\name, @function
\name:
	.endm

	.macro	end name
	.size	\name, . - \name
	.endm

	.macro	sum_and_ret
	lea	(%rdi,%rsi), %rax
	ret
	.endm

	.p2align 4
helper:
	lea	(%rdi,%rsi), %rax
	ret

	.p2align 4
.Lsum:
	sum_and_ret

/* a push, which the kernel emulates, at the entry or behind endbr64 */

function push_rbx
	push	%rbx
	mov	%rdi, %rbx
	lea	(%rbx,%rsi), %rax
	pop	%rbx
	ret
end push_rbx

function push_r12
	push	%r12
	mov	%rdi, %r12
	lea	(%r12,%rsi), %rax
	pop	%r12
	ret
end push_r12

function endbr_push
	endbr64
	push	%rbp
	mov	%rsp, %rbp
	lea	(%rdi,%rsi), %rax
	pop	%rbp
	ret
end endbr_push

function endbr_push_r15
	endbr64
	push	%r15
	lea	(%rdi,%rsi), %rax
	pop	%r15
	ret
end endbr_push_r15

/* nothing cheap */

function endbr_mov
	endbr64
	mov	%rdi, %rax
	add	%rsi, %rax
	ret
end endbr_mov

function lea_ret
	sum_and_ret
end lea_ret

function rip_relative
	mov	.Lzero(%rip), %rax
	add	%rdi, %rax
	add	%rsi, %rax
	ret
end rip_relative

function endbr_rip_relative
	endbr64
	lea	.Lzero(%rip), %rax
	mov	(%rax), %rax
	add	%rdi, %rax
	add	%rsi, %rax
	ret
end endbr_rip_relative

/* one instruction, without a result */

function ret_only
	ret
end ret_only

function rep_ret
	.byte	0xf3, 0xc3
end rep_ret

function endbr_ret
	endbr64
	ret
end endbr_ret

function nop_ret
	nop
	ret
end nop_ret

/* nops, as -fpatchable-function-entry and -mfentry leave them */

function nop1
	nop
	sum_and_ret
end nop1

function nop2
	.byte	0x66, 0x90
	sum_and_ret
end nop2

function nop5
	.byte	0x0f, 0x1f, 0x44, 0x00, 0x00
	sum_and_ret
end nop5

function endbr_nop5
	endbr64
	.byte	0x0f, 0x1f, 0x44, 0x00, 0x00
	push	%rbx
	lea	(%rdi,%rsi), %rax
	pop	%rbx
	ret
end endbr_nop5

function five_nops
	.rept	5
	nop
	.endr
	sum_and_ret
end five_nops

/* stubs */

function stub_near
	.byte	0xe9
	.long	.Lsum - . - 4
end stub_near

function stub_short
	.byte	0xeb, 1f - . - 1
	ud2
1:	sum_and_ret
end stub_short

function endbr_stub
	endbr64
	.byte	0xe9
	.long	.Lsum - . - 4
end endbr_stub

function stub_indirect
	jmp	*.Lpointer(%rip)
end stub_indirect

function endbr_stub_indirect
	endbr64
	jmp	*.Lpointer(%rip)
end endbr_stub_indirect

/* calls and branches first */

function call_first
	call	helper
	ret
end call_first

function endbr_call
	endbr64
	call	helper
	ret
end endbr_call

function test_je
	endbr64
	mov	%rdi, %rax
	test	%rdi, %rdi
	je	1f
	add	%rsi, %rax
1:	ret
end test_je

function compare_jne
	endbr64
	cmpq	$0, (%r9)
	jne	1f
	xor	%eax, %eax
	ret
1:	sum_and_ret
end compare_jne

function far_jne
	test	%rdi, %rdi
	.byte	0x0f, 0x85
	.long	.Lsum - . - 4
	xor	%eax, %eax
	ret
end far_jne

/* frames */

function frame_sub
	sub	$24, %rsp
	mov	%rdi, 8(%rsp)
	call	helper
	add	$24, %rsp
	ret
end frame_sub

function endbr_frame_sub
	endbr64
	sub	$24, %rsp
	mov	%rdi, 8(%rsp)
	mov	%rsi, 16(%rsp)
	call	helper
	add	$24, %rsp
	ret
end endbr_frame_sub

function frame_enter
	enter	$16, $0
	push	%rbx
	lea	(%rdi,%rsi), %rax
	pop	%rbx
	leave
	ret
end frame_enter

function realigned
	lea	8(%rsp), %r10
	and	$-32, %rsp
	push	-8(%r10)
	push	%rbp
	mov	%rsp, %rbp
	push	%r10
	sub	$40, %rsp
	lea	(%rdi,%rsi), %rax
	add	$40, %rsp
	pop	%r10
	pop	%rbp
	lea	-8(%r10), %rsp
	ret
end realigned

function endbr_realigned
	endbr64
	lea	8(%rsp), %r10
	and	$-64, %rsp
	push	-8(%r10)
	push	%rbp
	mov	%rsp, %rbp
	push	%r10
	lea	(%rdi,%rsi), %rax
	pop	%r10
	pop	%rbp
	lea	-8(%r10), %rsp
	ret
end endbr_realigned

function pop_push
	pop	%rax
	push	%rax
	sum_and_ret
end pop_push

/* arguments that are overwritten on the way in: in a register, or in memory */

function changed_rdi
	xchg	%rdi, %rsi
	push	%rbx
	lea	(%rdi,%rsi), %rax
	pop	%rbx
	ret
end changed_rdi

function changed_edx
	xor	%edx, %edx
	push	%rbx
	lea	(%rdi,%rsi), %rax
	pop	%rbx
	ret
end changed_edx

function changed_cell
	movq	$0, (%r9)
	push	%rbx
	lea	(%rdi,%rsi), %rax
	pop	%rbx
	ret
end changed_cell

function changed_stack
	xor	%eax, %eax
	mov	%rax, 8(%rsp)
	push	%rbx
	lea	(%rdi,%rsi), %rax
	pop	%rbx
	ret
end changed_stack

/* branches back: c + 1 passes */

function loop_entry
	sub	$1, %rdx
	jnc	loop_entry
	sum_and_ret
end loop_entry

function loop_entry_nop
1:	nop
	sub	$1, %rdx
	jnc	1b
	sum_and_ret
end loop_entry_nop

function loop_behind_endbr
	endbr64
1:	nop
	sub	$1, %rdx
	jnc	1b
	sum_and_ret
end loop_behind_endbr

function loop_way
	endbr64
	mov	%rdi, %rax
1:	test	%rdx, %rdx
	je	2f
	dec	%rdx
	jmp	1b
2:	add	%rsi, %rax
	ret
end loop_way

function loop_body
	push	%rbx
	mov	%rdx, %rbx
1:	sub	$1, %rbx
	jnc	1b
	lea	(%rdi,%rsi), %rax
	pop	%rbx
	ret
end loop_body

/* jumps past its own endbr64, as a direct call of a compiler that knows it does */

function endbr_passed
	endbr64
	push	%rbx
	lea	(%rdi,%rsi), %rax
	pop	%rbx
	ret
end endbr_passed

function enters_passed
	jmp	endbr_passed + 4
end enters_passed

/* a system call first */

function syscall_first
	mov	$__NR_getppid, %eax
	push	%rdi
	push	%rsi
	syscall
	pop	%rax
	pop	%rdi
	add	%rdi, %rax
	ret
end syscall_first

	.section .rodata
	.p2align 3
.Lzero:
	.quad	0

	.section .data.rel.local, "aw"
	.p2align 3
.Lpointer:
	.quad	.Lsum

	.section .note.GNU-stack, "", @progbits
