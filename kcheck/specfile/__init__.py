"""Find, read and check op specs, and load the user's functions.

``load_spec`` does not import user code; only ``load_file`` and ``load_function`` do.
"""

from kcheck.specfile.build import duplicate_ops, load_spec
from kcheck.specfile.calibration import calibrated
from kcheck.specfile.discover import Discovery, discover, files_of
from kcheck.specfile.load import load_function
from kcheck.specfile.paths import find_root
from kcheck.specfile.schema_files import schema_text

__all__ = [
    "Discovery",
    "calibrated",
    "discover",
    "duplicate_ops",
    "files_of",
    "find_root",
    "load_function",
    "load_spec",
    "schema_text",
]
