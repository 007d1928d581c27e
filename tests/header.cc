// SPDX-License-Identifier: BSD-2-Clause
// The public header, with the macros that initialize the structs, also compiles as C++.
#include <rdmabroker.h>

rdmabroker_options options = RDMABROKER_OPTIONS_INIT;
rdmabroker_conn_param conn_param = RDMABROKER_CONN_PARAM_INIT;
rdmabroker_ud_param ud_param = RDMABROKER_UD_PARAM_INIT;

bool has_ah_attr(const rdmabroker_ud_param *ud)
{
	return RDMABROKER_HAS(ud, ah_attr);
}
