/* Where the functions of the echo device go (shim/generate_stubs.py echoes): writes down the name in
   rax, the six registers and eight words of the stack, and returns 42. */
    .text
    .globl prism_echo_call
    .hidden prism_echo_call
    .type prism_echo_call, @function
prism_echo_call:
    lea prism_echo(%rip), %r11
    mov %rax, 0(%r11)
    mov %rdi, 8(%r11)
    mov %rsi, 16(%r11)
    mov %rdx, 24(%r11)
    mov %rcx, 32(%r11)
    mov %r8, 40(%r11)
    mov %r9, 48(%r11)
    .irp word, 0, 1, 2, 3, 4, 5, 6, 7
    mov 8+8*\word(%rsp), %rax
    mov %rax, 56+8*\word(%r11)
    .endr
    mov $42, %eax
    ret
    .size prism_echo_call, . - prism_echo_call
    .bss
    .balign 16
    .globl prism_echo
    .protected prism_echo
    .type prism_echo, @object
prism_echo:
    .zero 120
    .size prism_echo, . - prism_echo
    .section .note.GNU-stack,"",@progbits
