// SPDX-License-Identifier: LGPL-2.1-or-later
/* A guest in 512 bytes, for what a Linux guest cannot show: memory whose right content is known at every moment.
 *
 * It adds one to the first byte of each page from 1 MiB to BOOT_END, in order, for ever. So wherever it is stopped, the
 * pages up to some place hold N and all behind it N - 1: anything else is a page that was lost or is stale. It prints 'A'
 * at its start and a 'B' after every 16 passes. It runs in 32-bit mode without paging, under TCG and under KVM. */
#ifndef BOOT_END
#define BOOT_END 0x6400000
#endif
	.code16
	.globl _start
_start:	cli
	xorw %ax, %ax
	movw %ax, %ds
	movw %ax, %ss
	movw $0x7000, %sp
	inb $0x92, %al			/* the A20 gate */
	orb $2, %al
	outb %al, $0x92
	lgdt gdtr
	movl %cr0, %eax
	orl $1, %eax
	movl %eax, %cr0
	ljmp $8, $protected

	.code32
protected:
	movw $16, %ax
	movw %ax, %ds
	movw %ax, %es
	movw %ax, %ss
	movl $0x6000, %esp
	movw $0x3f8, %dx		/* the first serial port */
	movb $'A', %al
	outb %al, %dx
	xorl %ebp, %ebp
pass:	movl $0x100000, %edi
1:	incb (%edi)
	addl $4096, %edi
	cmpl $BOOT_END, %edi
	jb 1b
	incl %ebp
	testl $15, %ebp
	jnz pass
	movb $'B', %al
	outb %al, %dx
	jmp pass

	.align 8
gdt:	.quad 0, 0x00cf9a000000ffff, 0x00cf92000000ffff
gdtr:	.word 23
	.long gdt
	.org 510
	.word 0xaa55
	.section .note.GNU-stack, "", @progbits
