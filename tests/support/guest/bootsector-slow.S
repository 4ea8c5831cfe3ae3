// SPDX-License-Identifier: LGPL-2.1-or-later
/* The guest of bootsector.S, at leisure: the first pass goes as fast as it can, and then it adds one to BOOT_PAGES pages at each
 * tick of a clock of 100 Hz and sleeps in between. What its memory may hold is the same, so boot-invariant judges it, too.
 * It prints 'A' at its start, a 'B' after the first pass, and then one about four times a second.
 *
 * In real mode, for the BIOS serves the clock there, with a segment that reaches all memory. */
#ifndef BOOT_END
#define BOOT_END 0x6400000
#endif
#ifndef BOOT_PAGES
#define BOOT_PAGES 6
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
	movl %cr0, %eax			/* a visit to protected mode: the limit of fs stays behind */
	orb $1, %al
	movl %eax, %cr0
	movw $8, %bx
	movw %bx, %fs
	andb $0xfe, %al
	movl %eax, %cr0
	xorw %bx, %bx
	movw %bx, %fs
	movw $0x3f8, %dx		/* the first serial port */
	movb $'A', %al
	outb %al, %dx
	movl $0x100000, %edi
1:	call add
	jnz 1b
	movb $0x34, %al			/* 1193182 / 11932 = 100 Hz */
	outb %al, $0x43
	movb $(11932 & 255), %al
	outb %al, $0x40
	movb $(11932 >> 8), %al
	outb %al, $0x40
	sti
say:	movb $'B', %al
	outb %al, %dx
	movw $25, %bp
tick:	movw $BOOT_PAGES, %cx
2:	call add
	loop 2b
	hlt
	decw %bp
	jnz tick
	jmp say

add:	incb %fs:(%edi)			/* Z: that was the last page of a pass */
	addl $4096, %edi
	cmpl $BOOT_END, %edi
	jne 3f
	movl $0x100000, %edi
	cmpl %edi, %edi
3:	ret

	.align 8
gdt:	.quad 0, 0x00cf92000000ffff
gdtr:	.word 15
	.long gdt
	.org 510
	.word 0xaa55
	.section .note.GNU-stack, "", @progbits
