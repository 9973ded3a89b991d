/* The fat binary of reduction_kernels.cu; PRISM_REDUCTION_FATBIN is its path. */
    .section .rodata
    .balign 16
    .global prism_reduction_image
    .type prism_reduction_image, @object
prism_reduction_image:
    .incbin PRISM_REDUCTION_FATBIN
    .size prism_reduction_image, . - prism_reduction_image
    .section .note.GNU-stack,"",@progbits
