"""What a function is run with: arrays of the user that fit its parameters, or made ones that fit their uses.

``given`` holds arrays against parameters, ``archive`` reads them from an .npz file, ``stacked`` takes several
inputs out of one, ``uses`` finds out what the values of a parameter are for, ``made`` makes some.
"""

from annotated_region.inputs.archive import read_arrays, write_arrays
from annotated_region.inputs.given import Arguments, arguments_for
from annotated_region.inputs.stacked import inputs_in_stack

__all__ = ["Arguments", "arguments_for", "inputs_in_stack", "read_arrays", "write_arrays"]
