"""Stand-in for flash-attn 2, which has no wheel and takes hours to build: its tensors in their order,
and no computation. Written from memory of the sources, as far as the tests here use them: as many
heads of keys as of queries, no padding, no split of keys."""

__version__ = "2.7.4"
