#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# librdmacm and librdmabroker side by side on software iWARP.

export FABRIC=iwarp
# shellcheck source=sidebyside.sh
. "$(dirname "$0")/sidebyside.sh"
