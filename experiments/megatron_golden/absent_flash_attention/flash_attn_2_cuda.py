"""Stand-in, see flash_attn/__init__.py."""

from flash_attn.flash_attn_interface import absent as varlen_bwd  # noqa: F401
