/* Where calls go that issue work as a whole (shim/virtual_device/library_calls.txt): told to the virtual
   device, then made on the real library with the caller's arguments, of which at most kWords lie on
   the stack. r10: the call's name, r11: what it does, rax: where the real library's function is
   kept once found (shim/generate_stubs.py). */
    .set kWords, 24
    .text
    .hidden prism_device_library_call
    .hidden prism_device_enter_library_call
    .hidden prism_device_leave_library_call
    .globl prism_device_library_call
    .type prism_device_library_call, @function
prism_device_library_call:
    push %rbp
    mov %rsp, %rbp
    sub $(8*kWords + 112), %rsp
    .irp word, 0, 1, 2, 3
    movups %xmm\word, (8*kWords + 48 + 16*\word)(%rsp)
    .endr
    mov %rdi, (8*kWords + 0)(%rsp)
    mov %rsi, (8*kWords + 8)(%rsp)
    mov %rdx, (8*kWords + 16)(%rsp)
    mov %rcx, (8*kWords + 24)(%rsp)
    mov %r8, (8*kWords + 32)(%rsp)
    mov %r9, (8*kWords + 40)(%rsp)
    mov %r10, %rdi
    mov %r11, %rsi
    lea (8*kWords)(%rsp), %rdx
    lea 16(%rbp), %rcx
    mov %rax, %r8
    call prism_device_enter_library_call
    mov %rax, %r11
    lea 16(%rbp), %rsi
    mov %rsp, %rdi
    mov $kWords, %ecx
    cld
    rep movsq
    .irp word, 0, 1, 2, 3
    movups (8*kWords + 48 + 16*\word)(%rsp), %xmm\word
    .endr
    mov (8*kWords + 0)(%rsp), %rdi
    mov (8*kWords + 8)(%rsp), %rsi
    mov (8*kWords + 16)(%rsp), %rdx
    mov (8*kWords + 24)(%rsp), %rcx
    mov (8*kWords + 32)(%rsp), %r8
    mov (8*kWords + 40)(%rsp), %r9
    call *%r11
    mov %rax, (%rsp)
    call prism_device_leave_library_call
    mov (%rsp), %rax
    leave
    ret
    .size prism_device_library_call, . - prism_device_library_call
    .section .note.GNU-stack,"",@progbits
