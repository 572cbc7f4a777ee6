"""All that depends on one release of TVM: private names, and what the last two releases added or renamed.

The other rooms use only names that are public and that TVM 0.25, 0.26 and 0.27 share, so a new release of
TVM is taken up here. `tests/tvm_adapter/test_private_names.py` holds that line.
"""

from annotated_region.supported_versions import require_working_pair

require_working_pair()
