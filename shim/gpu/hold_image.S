/* The fat binary of hold_kernels.cu; PRISM_HOLD_FATBIN is its path. */
    .section .rodata
    .balign 16
    .global prism_hold_image
    .type prism_hold_image, @object
prism_hold_image:
    .incbin PRISM_HOLD_FATBIN
    .size prism_hold_image, . - prism_hold_image
    .section .note.GNU-stack,"",@progbits
