/* Where the functions that library_calls.txt describes go: collects a call's arguments, of which
   each, number or address, has eight bytes, and hands them to library_calls.cc.
   r10: the call's name, r11: what it does (launch/process/facades.h). */
    .text
    .hidden prism_shim_do_library_call
    .globl prism_shim_library_call
    .type prism_shim_library_call, @function
prism_shim_library_call:
    push %rbp
    mov %rsp, %rbp
    sub $48, %rsp
    mov %rdi, 0(%rsp)
    mov %rsi, 8(%rsp)
    mov %rdx, 16(%rsp)
    mov %rcx, 24(%rsp)
    mov %r8, 32(%rsp)
    mov %r9, 40(%rsp)
    mov %r10, %rdi
    mov %r11, %rsi
    mov %rsp, %rdx
    lea 16(%rbp), %rcx
    call prism_shim_do_library_call
    leave
    ret
    .size prism_shim_library_call, . - prism_shim_library_call
    .section .note.GNU-stack,"",@progbits
