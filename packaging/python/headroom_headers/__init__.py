"""The C++ headers of headroom, and its CMake package."""

from pathlib import Path

prefix = Path(__file__).resolve().parent
"""For CMAKE_PREFIX_PATH."""
include = prefix / "include"
