#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The cases of dropin.sh with the drop-in as the host's default: no word stands before the programs.

# shellcheck disable=SC2034
BY_DEFAULT=yes
# shellcheck source=dropin.sh
. "$(dirname "$0")/dropin.sh"
