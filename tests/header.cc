// SPDX-License-Identifier: BSD-2-Clause
// The public headers, with the macros that initialize the structs, also compile as C++.
#include <rdmabroker-admin.h>

rdmabroker_options options = RDMABROKER_OPTIONS_INIT;
rdmabroker_conn_param conn_param = RDMABROKER_CONN_PARAM_INIT;
rdmabroker_ud_param ud_param = RDMABROKER_UD_PARAM_INIT;
rdmabroker_filter filter = RDMABROKER_FILTER_INIT;
rdmabroker_question question = RDMABROKER_QUESTION_INIT;

bool has_warnings(const rdmabroker_status *status)
{
	return RDMABROKER_HAS(status, warnings);
}
