"""What a function is run with: arrays of the user that fit its parameters, or made ones that fit their uses.

``given`` holds arrays against parameters, ``archive`` reads them from an .npz file, ``uses`` finds out what
the values of a parameter are for, ``made`` makes some.
"""

from annotated_region.inputs.archive import read_arrays, write_arrays
from annotated_region.inputs.given import Arguments, arguments_for

__all__ = ["Arguments", "arguments_for", "read_arrays", "write_arrays"]
