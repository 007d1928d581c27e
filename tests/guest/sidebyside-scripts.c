/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The scripts, by subject. sidebyside-steps.c has their verbs, sidebyside-tell.c the names of addresses. Ids whose
 * names begin with "active" belong to the active side, others to the passive side, until "migrate" moves them. Each
 * side has its own event channel.
 */

#include <stddef.h>

#include "tests/guest/sidebyside.h"

#define LISTENING "create listener tcp; bind listener here; listen listener; "
#define ROUTED                                                        \
	"create active tcp; resolve-addr active here; event active; " \
	"resolve-route active; event active; "
#define ROUTED2                                                         \
	"create active2 tcp; resolve-addr active2 here; event active; " \
	"resolve-route active2; event active; "
#define ROUTED6                                                        \
	"create active tcp; resolve-addr active here6; event active; " \
	"resolve-route active; event active; "
#define READY ROUTED "create-qp active; "
#define REQUESTED LISTENING READY "connect active data=hello; event passive; "
#define ACCEPTED REQUESTED "create-qp passive; accept passive data=welcome; "
#define CONNECTED ACCEPTED "event active; event passive; "
/* A disconnect is complete when both sides have disconnected. */
#define DISCONNECTED "disconnect active; event passive; disconnect passive; event active; "

/* The program makes and moves the QPs. */
#define OWN_READY ROUTED "make-qp active; qp-attr active init; "
#define OWN_REQUESTED LISTENING OWN_READY "connect active data=hello; event passive; "
#define OWN_PASSIVE_RTS                                                \
	"make-qp passive; qp-attr passive init; qp-attr passive rtr; " \
	"qp-attr passive rts; "
#define OWN_ACTIVE_RTS "qp-attr active rtr; qp-attr active rts; "
#define OWN_ACCEPTED OWN_REQUESTED OWN_PASSIVE_RTS "accept passive data=welcome; event active; "
#define OWN_CONNECTED OWN_ACCEPTED OWN_ACTIVE_RTS "establish active; event passive; "

/* Datagrams */
#define SERVING "create listener udp; bind listener here; listen listener; "
#define ASKING                                                        \
	"create active udp; resolve-addr active here; event active; " \
	"resolve-route active; event active; create-qp active; "
#define ASKED SERVING ASKING "connect active data=who; event passive; "
#define MEMBER "create active udp; bind active 10.9.0.2:0; create-qp active; "

const struct script scripts[] = {
	/* The life of an id */
	{ "create-destroy", "create active tcp; destroy active; create listener udp; "
			    "create other ib; create third ipoib" },
	{ "create-unknown-port-space", "create active 1" },
	{ "destroy-bound", "create listener tcp; bind listener here; destroy listener; "
			   "create listener tcp; bind listener here" },
	{ "destroy-listening", LISTENING "destroy listener; " LISTENING },
	{ "destroy-while-resolving", "create active tcp; resolve-addr active here; "
				     "destroy active; quiet active" },
	{ "destroy-with-events", "create active tcp; resolve-addr active here; "
				 "pending active; destroy active; quiet active" },

	/* Addresses */
	{ "bind-specific", "create listener tcp; addresses listener; "
			   "bind listener here; addresses listener" },
	{ "bind-any-port", "create listener tcp; bind listener 10.9.0.1:0; "
			   "addresses listener" },
	{ "bind-wildcard", "create listener tcp; bind listener *:7471; "
			   "addresses listener; create other tcp; bind other *:0; "
			   "addresses other" },
	{ "bind-ipv6", "create listener tcp; bind listener here6; "
		       "addresses listener; create other tcp; "
		       "bind other [::]:7472; addresses other" },
	{ "bind-twice", "create listener tcp; bind listener here; "
			"bind listener here; bind listener 10.9.0.1:7472; "
			"addresses listener" },
	{ "bind-not-local", "create listener tcp; bind listener nowhere; "
			    "bind listener here" },
	{ "bind-loopback", "create listener tcp; bind listener 127.0.0.1:7471; "
			   "addresses listener" },
	{ "bind-unknown-family", "create listener tcp; bind listener unix" },
	/* Soft-RoCE has no AF_IB, but the kernel binds to the wildcard. */
	{ "bind-gid", "create listener tcp; bind listener gid=*:7471; addresses listener; "
		      "listen listener; create other tcp; bind other gid=*:0; addresses other; "
		      "create third tcp; bind third gid=10.9.0.1:7472; create other2 tcp; "
		      "bind other2 gid=*:7471; bind other2 *:7471" },
	{ "bind-gid-other-port-space", "create listener udp; bind listener gid=*:7471" },
	{ "resolve-gid", "create active tcp; resolve-addr active gid=10.9.0.1:7471; event active" },
	{ "bind-in-use", "create listener tcp; bind listener here; create other tcp; "
			 "bind other here; bind other *:7471; "
			 "bind other 10.9.0.2:7471" },
	{ "bind-in-use-wildcard", "create listener tcp; bind listener *:7471; "
				  "create other tcp; bind other here; bind other *:7471; "
				  "bind other here6" },
	{ "bind-other-port-space", "create listener tcp; bind listener here; create other udp; "
				   "bind other here; create third ib; bind third here" },
	{ "bind-after-listen", LISTENING "bind listener 10.9.0.1:7472" },
	{ "bind-after-resolve", ROUTED "bind active 10.9.0.2:7471; addresses active" },
	{ "bind-then-resolve", LISTENING "create active tcp; bind active 10.9.0.2:7480; "
					 "resolve-addr active here; event active; "
					 "resolve-route active; event active; addresses active; "
					 "create-qp active; connect active; event passive; "
					 "addresses passive" },

	{ "bind-freed", "create active tcp; bind active 10.9.0.2:0; keep-port active; "
			"destroy active; create active tcp; bind active 10.9.0.2:kept" },
	{ "bind-freed-wildcard", "create active tcp; bind active *:0; keep-port active; "
				 "destroy active; create active tcp; bind active 10.9.0.2:kept; "
				 "destroy active; create active tcp; bind active *:kept" },
	{ "bind-freed-resolved", "create active tcp; resolve-addr active here; event active; "
				 "keep-port active; destroy active; create active tcp; "
				 "bind active 10.9.0.2:kept" },
	{ "bind-freed-connected", CONNECTED "keep-port active; destroy active; event passive; "
					    "create active tcp; bind active 10.9.0.2:kept" },
	{ "bind-freed-datagram", ASKING "keep-port active; destroy active; create active udp; "
					"bind active 10.9.0.2:kept" },

	/* Sharing addresses */
	{ "reuseaddr-binds", "create active tcp; create active2 tcp; "
			     "option active reuseaddr 1; option active2 reuseaddr 1; "
			     "bind active 10.9.0.2:7480; bind active2 10.9.0.2:7480; "
			     "addresses active2" },
	{ "reuseaddr-only-one", "create active tcp; create active2 tcp; "
				"option active reuseaddr 1; bind active 10.9.0.2:7480; "
				"bind active2 10.9.0.2:7480" },
	{ "reuseaddr-taken-back", "create active tcp; option active reuseaddr 1; "
				  "option active reuseaddr 0; bind active 10.9.0.2:7480; "
				  "create active2 tcp; option active2 reuseaddr 1; "
				  "bind active2 10.9.0.2:7480" },
	{ "reuseaddr-late", "create active tcp; bind active 10.9.0.2:7480; "
			    "option active reuseaddr 1; option active reuseaddr 0" },
	{ "reuseaddr-connect", LISTENING "create other tcp; bind other 10.9.0.1:7472; "
					 "listen other; create active tcp; "
					 "option active reuseaddr 1; bind active 10.9.0.2:7480; "
					 "create active2 tcp; option active2 reuseaddr 1; "
					 "bind active2 10.9.0.2:7480; resolve-addr active here; "
					 "event active; resolve-route active; event active; "
					 "create-qp active; connect active; event passive; "
					 "addresses passive; resolve-addr active2 10.9.0.1:7472; "
					 "event active; resolve-route active2; event active; "
					 "create-qp active2; connect active2; "
					 "event passive passive2; addresses passive2" },
	{ "reuseaddr-listen", "create listener tcp; option listener reuseaddr 1; "
			      "bind listener here; listen listener; create other tcp; "
			      "bind other 10.9.0.1:7472; option other reuseaddr 1; "
			      "listen other" },
	{ "reuseaddr-listen-shared", "create listener tcp; option listener reuseaddr 1; "
				     "bind listener here; create other tcp; "
				     "option other reuseaddr 1; bind other here; "
				     "listen listener; listen other" },
	{ "afonly-both-families", "create listener tcp; option listener afonly 1; "
				  "bind listener [::]:7471; listen listener; "
				  "create other tcp; bind other *:7471; listen other" },
	{ "afonly-not", "create listener tcp; option listener afonly 0; "
			"bind listener [::]:7471; listen listener; "
			"create other tcp; bind other *:7471" },
	{ "afonly-late", "create listener tcp; bind listener [::]:7471; "
			 "option listener afonly 1; listen listener; "
			 "option listener afonly 1" },

	/* Listening */
	{ "listen-unbound", "create listener tcp; listen listener; addresses listener" },
	{ "listen-twice", LISTENING "listen listener" },
	{ "listen-backlogs", "create listener tcp; bind listener here; "
			     "listen listener 0; create other tcp; "
			     "bind other 10.9.0.1:7472; listen other -1; "
			     "create third tcp; bind third 10.9.0.1:7473; "
			     "listen third 1000000" },
	{ "listen-any-port", "create listener tcp; bind listener 10.9.0.1:0; "
			     "listen listener; addresses listener" },
	{ "listen-wildcard", "create listener tcp; bind listener *:7471; "
			     "listen listener; " READY "connect active data=hello; "
			     "event passive; addresses passive" },
	{ "listen-wildcard-ipv6", "create listener tcp; bind listener [::]:7471; "
				  "listen listener; " READY "connect active; event passive; "
				  "create active2 tcp; resolve-addr active2 here6; "
				  "event active; resolve-route active2; event active; "
				  "create-qp active2; connect active2; event passive passive2" },
	{ "listen-resolved", ROUTED "listen active" },
	{ "listen-backlog-full", "create listener tcp; bind listener here; "
				 "listen listener 1; " READY "connect active data=one; " ROUTED2
				 "create-qp active2; event passive passive1; "
				 "connect active2 data=two; event passive passive2" },

	/* Resolving */
	{ "resolve", ROUTED "addresses active" },
	{ "resolve-from", "create active tcp; resolve-addr active here 10.9.0.2:7480; "
			  "event active; addresses active" },
	{ "resolve-from-wildcard", "create active tcp; resolve-addr active here *:0; "
				   "event active; addresses active" },
	{ "resolve-from-not-local", "create active tcp; resolve-addr active here 192.0.2.1:0; "
				    "quiet active" },
	{ "resolve-from-other-family", "create active tcp; resolve-addr active here [fd09::2]:0; "
				       "quiet active" },
	{ "resolve-from-after-bind", "create active tcp; bind active 10.9.0.2:7480; "
				     "resolve-addr active here 10.9.0.2:7481; event active; "
				     "addresses active" },
	{ "resolve-ipv6", ROUTED6 "addresses active" },
	{ "resolve-unroutable", "create active tcp; resolve-addr active nowhere; "
				"quiet active; resolve-addr active here; event active" },
	{ "resolve-no-neighbour", "create active tcp; resolve-addr active 10.9.0.250:7471; "
				  "event active" },
	{ "resolve-loopback", "create active tcp; resolve-addr active 127.0.0.1:7471; "
			      "event active" },
	{ "resolve-wildcard", "create active tcp; resolve-addr active *:7471; "
			      "event active; addresses active" },
	{ "resolve-unknown-family", "create active tcp; resolve-addr active unix" },
	{ "resolve-twice", "create active tcp; resolve-addr active here; event active; "
			   "resolve-addr active here; quiet active" },
	{ "resolve-listening", LISTENING "resolve-addr listener 10.9.0.2:7472; "
					 "quiet passive" },
	{ "route-first", "create active tcp; bind active 10.9.0.2:0; "
			 "resolve-route active" },
	{ "route-unbound", "create active tcp; !resolve-route active" },
	{ "route-twice", ROUTED "resolve-route active; quiet active" },

	/* Paths */
	{ "path", LISTENING READY "route active; connect active; event passive; route passive" },
	{ "path-ipv6", "create listener tcp; bind listener here6; listen listener; " ROUTED6
		       "create-qp active; route active; connect active; event passive; "
		       "route passive" },
	{ "path-tos", LISTENING "create active tcp; option active tos 104; "
				"resolve-addr active here; event active; resolve-route active; "
				"event active; route active; create-qp active; connect active; "
				"event passive; route passive" },
	{ "path-tos-between", "create active tcp; resolve-addr active here; event active; "
			      "option active tos 32; resolve-route active; event active; "
			      "route active" },
	{ "path-ack-timeout", "create active tcp; option active ack-timeout 21; "
			      "resolve-addr active here; event active; resolve-route active; "
			      "event active; route active" },
	{ "path-migrated", LISTENING "create active tcp; resolve-addr active here; event active; "
				     "migrate active worker; resolve-route active; event worker; "
				     "route active; create-qp active; connect active; "
				     "event passive; migrate passive worker; route passive" },
	{ "path-datagram", ASKED "route active; route passive" },
	{ "set-path", LISTENING "create active tcp; resolve-addr active here; event active; "
				"path active; event active; route active; create-qp active; "
				"connect active data=hello; event passive; create-qp passive; "
				"accept passive; event active; event passive; qp-attr active rtr" },
	{ "set-path-elsewhere", "create active tcp; resolve-addr active here; event active; "
				"path active elsewhere" },
	{ "set-path-misused", "create active tcp; path active; bind active 10.9.0.2:0; "
			      "path active; " ROUTED2 "path active2; " LISTENING "path listener" },
	{ "path-ib", "create listener ib; bind listener here; listen listener; "
		     "create active ib; resolve-addr active here; event active; "
		     "resolve-route active; event active; route active; create-qp active; "
		     "connect active; event passive; route passive" },

	/* Options */
	{ "option-values", "create active tcp; option active tos 0; "
			   "option active tos 255; option active tos 256; "
			   "option active tos -1; option active ack-timeout 0; "
			   "option active ack-timeout 31; "
			   "option active ack-timeout 256; option active 77 1" },
	{ "option-ack-timeout-too-long", "create active tcp; option active ack-timeout 32" },
	{ "option-not-boolean", "create active tcp; option active reuseaddr 2; "
				"option active afonly 2" },
	{ "option-tos", "create active tcp; option active tos 104; "
			"resolve-addr active here; event active; "
			"resolve-route active; event active; make-qp active; "
			"qp-attr active init; " LISTENING "connect active; "
			"event passive; make-qp passive; qp-attr passive init; "
			"qp-attr passive rtr" },
	{ "option-tos-late", CONNECTED "option active tos 8; option passive tos 8; "
				       "disconnect active; option active tos 16" },
	{ "option-tos-listening",
	  LISTENING "option listener tos 8; "
		    "option listener reuseaddr 1; option listener reuseaddr 0" },
	{ "option-ack-timeout", "create active tcp; option active ack-timeout 21; "
				"resolve-addr active here; event active; "
				"resolve-route active; event active; make-qp active; "
				"qp-attr active init; " LISTENING "connect active; "
				"event passive; " OWN_PASSIVE_RTS "accept passive; "
				"event active; qp-attr active rtr; qp-attr active rts" },
	{ "option-ack-timeout-datagram", "create active udp; option active ack-timeout 14" },

	/* Connections */
	{ "connect", CONNECTED "addresses active; addresses passive; "
			       "qp-state active; qp-state passive" },
	{ "connect-ipv6", "create listener tcp; bind listener here6; listen listener; " ROUTED6
			  "create-qp active; connect active data=hello; "
			  "event passive; create-qp passive; "
			  "accept passive data=welcome; event active; event passive; "
			  "addresses passive" },
	{ "connect-without-parameters",
	  LISTENING READY "connect active none; event passive; "
			  "create-qp passive; accept passive none; event active; "
			  "event passive" },
	{ "connect-parameters",
	  LISTENING READY "connect active resources=3 depth=5 flow=1 retries=2 rnr-retries=4; "
			  "event passive; create-qp passive; "
			  "accept passive resources=5 depth=3 flow=1 rnr-retries=6; "
			  "event active; event passive" },
	{ "connect-two",
	  CONNECTED ROUTED2 "create-qp active2; "
			    "connect active2 data=second; event passive passive2; "
			    "disconnect active; event passive; disconnect passive; "
			    "event active; create-qp passive2; "
			    "accept passive2 data=other; event active; event passive; "
			    "disconnect passive2; event active; disconnect active2; "
			    "event passive" },
	{ "connect-as-much-as-can-be",
	  LISTENING READY "connect active resources=255 depth=255; "
			  "event passive; create-qp passive; "
			  "accept passive resources=255 depth=255; event active; "
			  "event passive" },
	{ "connect-too-many-resources",
	  LISTENING READY "connect active resources=200; "
			  "connect active depth=200; connect active; event passive; "
			  "create-qp passive; accept passive resources=200; "
			  "accept passive depth=200; accept passive; event active; "
			  "event passive" },
	{ "connect-too-many-retries", LISTENING READY "connect active retries=8 rnr-retries=9; "
						      "event passive" },
	{ "connect-own-qp", OWN_CONNECTED "qp-state active; qp-state passive; " DISCONNECTED
					  "qp-state active; qp-state passive" },
	{ "connect-unbound", "create active tcp; !connect active" },
	{ "connect-bound", "create active tcp; bind active 10.9.0.2:0; "
			   "create-qp active; connect active" },
	{ "connect-before-route", "create active tcp; resolve-addr active here; event active; "
				  "create-qp active; connect active; resolve-route active; "
				  "event active" },
	{ "connect-without-qp", ROUTED "connect active none" },
	{ "connect-nobody", "create active tcp; resolve-addr active nobody; "
			    "event active; resolve-route active; event active; "
			    "create-qp active; connect active; event active; "
			    "qp-state active; connect active" },
	{ "connect-twice", REQUESTED "connect active; quiet passive" },
	{ "connect-connected", CONNECTED "connect active; connect passive" },
	{ "connect-listening", LISTENING "connect listener" },
	{ "connect-most-data", LISTENING READY "connect active length=56; event passive; "
					       "create-qp passive; accept passive length=196; "
					       "event active; event passive" },
	{ "connect-too-much-data", LISTENING READY "connect active length=57" },
	{ "accept-too-much-data", REQUESTED "create-qp passive; accept passive length=197; "
					    "quiet active" },
	{ "accept-twice", ACCEPTED "accept passive; event active; event passive; "
				   "accept passive; accept active" },
	{ "accept-twice-own-qp", OWN_REQUESTED OWN_PASSIVE_RTS
	  "accept passive; "
	  "!accept passive; event active; " OWN_ACTIVE_RTS "establish active; event passive" },
	{ "accept-unbound", "create active tcp; !accept active" },
	{ "accept-listening", LISTENING "accept listener" },
	{ "accept-resolved", READY "accept active" },
	{ "accept-without-qp", REQUESTED "!accept passive none" },
	{ "accept-peer-gone", REQUESTED "destroy active; create-qp passive; "
					"accept passive; quiet passive" },
	{ "establish-misused", "create active tcp; establish active; destroy active; " LISTENING
			       "establish listener; " READY "establish active" },
	{ "establish-without-response",
	  OWN_REQUESTED "!establish active; reject passive data=full; "
			"event active" },
	{ "establish-twice", OWN_CONNECTED "establish active; establish passive" },
	{ "establish-response-late",
	  OWN_ACCEPTED OWN_ACTIVE_RTS "quiet passive; "
				      "establish active; event passive" },

	/* Rejections */
	{ "reject", REQUESTED "reject passive; event active; qp-state active; "
			      "quiet passive" },
	{ "reject-data", REQUESTED "reject passive data=full; event active" },
	{ "reject-most-data", REQUESTED "reject passive length=148; event active" },
	{ "reject-too-much-data", REQUESTED "reject passive length=149; quiet active; "
					    "reject passive; event active" },
	{ "reject-ece", REQUESTED "reject-ece passive data=alien; event active" },
	{ "reject-own-request", REQUESTED "!reject active data=no; reject passive; "
					  "event active" },
	{ "reject-own-qp", OWN_REQUESTED "reject passive data=full; event active; "
					 "establish active" },
	{ "reject-twice", REQUESTED "reject passive; event active; reject passive; "
				    "reject active" },
	{ "reject-accepted", ACCEPTED "!reject passive data=late; event active; "
				      "event passive" },
	{ "reject-connected", CONNECTED "reject passive; reject active" },
	{ "reject-misused",
	  "create active tcp; reject active; reject-ece active; " LISTENING "reject listener" },
	{ "reject-response", OWN_ACCEPTED "reject active data=no; event passive" },
	{ "reject-by-destroy", REQUESTED "destroy passive; event active" },
	{ "reject-by-listener-destroy", LISTENING READY "connect active; pending passive; "
							"destroy listener; event active" },
	{ "reject-by-nobody-left",
	  LISTENING READY "connect active; event passive; "
			  "destroy listener; reject passive data=late; event active" },

	/* Ends */
	{ "disconnect-active", CONNECTED "disconnect active; event passive; "
					 "qp-state active; qp-state passive; disconnect passive; "
					 "event active; qp-state passive" },
	{ "disconnect-passive",
	  CONNECTED "disconnect passive; event active; disconnect active; event passive" },
	{ "disconnect-unanswered", CONNECTED "disconnect active; event passive; quiet active; "
					     "qp-state passive; destroy active; destroy passive" },
	{ "disconnect-twice", CONNECTED "disconnect active; disconnect active; "
					"event passive; disconnect passive; event active; "
					"disconnect active; disconnect passive; quiet active; "
					"quiet passive" },
	{ "disconnect-both", CONNECTED "disconnect active; disconnect passive; "
				       "event active; event passive; quiet active; quiet passive" },
	{ "disconnect-timewait", CONNECTED DISCONNECTED "event active; event passive" },
	{ "disconnect-misused", "create active2 tcp; disconnect active2; " LISTENING
				"disconnect listener; " READY "disconnect active" },
	{ "disconnect-requested", REQUESTED "disconnect passive; disconnect active; "
					    "quiet active; quiet passive" },
	/* Neither side is told more than that: a wait for further events would last until the patience is over. */
	{ "disconnect-connecting", REQUESTED
	  "disconnect active; create-qp passive; accept passive; event active; quiet passive; "
	  "disconnect active; quiet passive; disconnect passive; quiet active" },
	{ "disconnect-accepted",
	  ACCEPTED "disconnect passive; event active; event passive; " DISCONNECTED },
	{ "destroy-connected-active", CONNECTED "destroy active; event passive" },
	{ "destroy-connected-passive", CONNECTED "destroy passive; event active" },
	{ "destroy-listener-connected",
	  CONNECTED "destroy listener; quiet passive; " DISCONNECTED },
	{ "connect-again", CONNECTED DISCONNECTED
	  "destroy passive; destroy active; " READY "connect active data=again; event passive; "
	  "create-qp passive; accept passive; event active; "
	  "event passive" },

	/* QPs */
	{ "qp-unbound", "create active tcp; create-qp active; qp-state active" },
	{ "qp-bound", "create active tcp; bind active 10.9.0.2:0; "
		      "create-qp active; qp-state active" },
	{ "qp-twice", READY "create-qp active; destroy-qp active; "
			    "qp-state active; create-qp active" },
	{ "qp-destroyed-connecting", LISTENING READY "connect active; destroy-qp active; "
						     "event passive; create-qp passive; "
						     "accept passive; event active" },
	{ "qp-destroyed-accepted", ACCEPTED "destroy-qp passive; event active; event passive" },
	{ "qp-attr-unbound", "create active tcp; qp-attr active init; "
			     "qp-attr active rtr; qp-attr active rts" },
	{ "qp-attr-bound", "create active tcp; bind active 10.9.0.2:0; "
			   "qp-attr active init; qp-attr active rtr" },
	{ "qp-attr-too-early", OWN_READY "qp-attr active rtr; qp-attr active rts" },
	{ "qp-attr-no-such-state", READY "qp-attr active reset; qp-attr active err" },
	{ "qp-attr-connected", CONNECTED OWN_ACTIVE_RTS "qp-attr passive rts" },
	{ "qp-attr-listening", LISTENING "qp-attr listener init; qp-attr listener rtr" },
	{ "qp-attr-datagram", ASKING "qp-attr active init; qp-attr active rtr; "
				     "qp-attr active rts; qp-state active" },
	{ "notify-misused", "create active2 tcp; notify active2 comm-est; " LISTENING
			    "notify listener comm-est; notify listener path-mig; " READY
			    "notify active comm-est; connect active; "
			    "notify active comm-est" },
	{ "notify-established",
	  OWN_ACCEPTED OWN_ACTIVE_RTS "notify passive comm-est; "
				      "event passive; notify passive comm-est; "
				      "notify passive path-mig; establish active" },

	/* Enhanced connection establishment */
	{ "ece", LISTENING OWN_READY
	  "set-ece active 5 7; connect active; "
	  "event passive; get-ece passive; set-ece passive 5 3; " OWN_PASSIVE_RTS
	  "accept passive; event active; "
	  "get-ece active" },
	{ "ece-none", OWN_REQUESTED "get-ece passive; " OWN_PASSIVE_RTS
				    "accept passive; event active; get-ece active" },
	{ "ece-misused", "create active tcp; get-ece active; set-ece active 0 1; "
			 "set-ece active 5 0; " LISTENING "get-ece listener" },
	{ "ece-library-qp", REQUESTED "get-ece passive; create-qp passive; "
				      "get-ece passive; set-ece passive 5 7; set-ece active 5 7" },
	{ "ece-rejected", LISTENING OWN_READY "set-ece active 5 7; connect active; "
					      "event passive; get-ece passive; "
					      "reject-ece passive data=alien; event active" },

	/* Channels */
	{ "migrate-bound", "create listener tcp; bind listener here; "
			   "migrate listener worker; listen listener; " READY
			   "connect active; event worker; quiet passive" },
	{ "migrate-request", REQUESTED "migrate passive worker; create-qp passive; "
				       "accept passive; event active; event worker; "
				       "disconnect active; event worker; disconnect passive; "
				       "event active; quiet passive" },
	{ "migrate-connected", OWN_CONNECTED "migrate passive worker; disconnect active; "
					     "event worker; disconnect passive; event active" },
	{ "migrate-with-events",
	  LISTENING READY "connect active data=hello; "
			  "pending passive; migrate listener worker; quiet worker; "
			  "quiet passive; quiet active" },
	{ "migrate-resolved", "create active tcp; resolve-addr active here; "
			      "pending active; migrate active worker; event worker; "
			      "quiet active; resolve-route active; event worker" },
	{ "migrate-outcome", REQUESTED "create-qp passive; accept passive; "
				       "pending active; migrate active worker; event worker; "
				       "event passive; quiet active" },
	{ "migrate-listening", LISTENING "migrate listener worker; " READY
					 "connect active; event worker; quiet passive" },

	/* Calls that wait */
	{ "waiting-resolve", "create-waiting active tcp; resolve-addr active here; "
			     "resolve-route active; addresses active; create-qp active" },
	{ "waiting-unroutable", "create-waiting active tcp; resolve-addr active nowhere" },
	{ "waiting-nobody", "create-waiting active tcp; resolve-addr active nobody; "
			    "resolve-route active; create-qp active; connect active" },
	{ "get-request", "create-waiting listener tcp; bind listener here; "
			 "listen listener; " READY "connect active data=hello; "
			 "get-request listener passive; migrate passive worker; "
			 "create-qp passive; accept passive; event active; "
			 "event worker" },
	{ "create-ep-passive",
	  "create-ep listener passive tcp 10.9.0.1 7471; "
	  "addresses listener; listen listener; " READY "connect active; event passive" },
	{ "create-ep-active", LISTENING "create-ep active active tcp 10.9.0.1 7471; "
					"addresses active; create-qp active; connect active; "
					"event passive" },
	/* The attributes show which type the kernel has put into its messages. */
	{ "create-ep-xrc", "create-ep listener passive ib 10.9.0.1 7471 xrc; addresses listener; "
			   "listen listener; create-ep active active ib 10.9.0.1 7471 xrc; "
			   "addresses active; qp-attr active init; make-qp active; "
			   "connect active data=hello; event passive; qp-attr passive init; "
			   "qp-attr passive rtr; qp-attr passive rts; make-qp passive; "
			   "accept passive data=welcome; event active; qp-attr active rtr; "
			   "establish active; event passive" },
	{ "create-ep-unroutable", "create-ep active active tcp 192.0.2.1 7471" },
	{ "create-ep-in-use", LISTENING "create-ep other passive tcp 10.9.0.1 7471" },

	/* Datagrams */
	{ "lookup", ASKED "create-qp passive; accept passive data=me; "
			  "event active; quiet passive; addresses passive; "
			  "qp-state active; qp-state passive" },
	{ "lookup-most-data",
	  SERVING ASKING "connect active length=180; event passive; "
			 "create-qp passive; accept passive length=136; event active" },
	{ "lookup-too-much-data", SERVING ASKING "connect active length=181" },
	{ "lookup-answer-too-long", ASKED "create-qp passive; accept passive length=137; "
					  "quiet active" },
	{ "lookup-own-qp", SERVING "create active udp; resolve-addr active here; "
				   "event active; resolve-route active; event active; "
				   "make-qp active; qp-attr active init; connect active; "
				   "event passive; make-qp passive; qp-attr passive init; "
				   "accept passive; event active" },
	{ "lookup-reject", ASKED "reject passive data=no; event active" },
	{ "lookup-reject-ece", ASKED "reject-ece passive data=no; event active" },
	{ "lookup-nobody", "create active udp; resolve-addr active nobody; "
			   "event active; resolve-route active; event active; "
			   "create-qp active; connect active; event active; "
			   "connect active" },
	{ "lookup-destroyed", ASKED "destroy passive; event active" },
	{ "lookup-without-route", SERVING "create active udp; resolve-addr active here; "
					  "event active; create-qp active; connect active" },
	{ "lookup-answered-twice", ASKED "create-qp passive; accept passive; accept passive; "
					 "event active; accept passive; reject passive" },
	{ "lookup-disconnect", ASKED "create-qp passive; accept passive; event active; "
				     "disconnect active; disconnect passive; quiet active; "
				     "quiet passive" },
	{ "lookup-again", ASKED "create-qp passive; accept passive; event active; "
				"connect active; quiet passive" },
	{ "lookup-establish", ASKED "create-qp passive; accept passive; event active; "
				    "establish active; establish passive; "
				    "notify passive comm-est" },
	{ "lookup-in-tcp", LISTENING ASKING "connect active; event active" },

	/* Multicast */
	{ "join", MEMBER "join active group; event active; "
			 "leave active group; quiet active" },
	{ "join-resolved", ASKING "join active group; quiet active; leave active group" },
	{ "join-address-resolved", "create active udp; resolve-addr active here; event active; "
				   "create-qp active; join active group; event active; "
				   "leave active group" },
	{ "join-before-qp", "create active udp; bind active 10.9.0.2:0; "
			    "join active group; event active; create-qp active; "
			    "leave active group" },
	{ "join-send-only", MEMBER "join active group send-only; event active; "
				   "leave active group" },
	{ "join-two-groups", MEMBER "join active group; event active; "
				    "join active group2; event active; leave active group; "
				    "leave active group2" },
	{ "join-twice", MEMBER "join active group; event active; join active 239.9.0.1:0; "
			       "quiet active" },
	{ "join-two-ids", MEMBER "create active2 udp; bind active2 10.9.0.2:0; "
				 "create-qp active2; join active group; event active; "
				 "join active2 group; event active; leave active group; "
				 "leave active2 group" },
	{ "join-again", MEMBER "join active group; event active; "
			       "leave active group; join active group; event active" },
	{ "join-unbound", "create active udp; join active group; quiet active" },
	{ "join-wildcard", "create active udp; bind active *:0; join active group; "
			   "quiet active" },
	{ "join-not-a-group", MEMBER "join active 10.9.0.1:0; event active" },
	{ "join-ipv6", "create active udp; bind active [fd09::2]:0; "
		       "create-qp active; join active group6; quiet active; "
		       "leave active group6" },
	{ "join-unknown-family", "create active udp; bind active 10.9.0.2:0; "
				 "join active unix; leave active unix" },
	{ "join-tcp", "create active tcp; bind active 10.9.0.2:0; "
		      "create-qp active; join active group; quiet active" },
	{ "leave-not-joined", "create active udp; bind active 10.9.0.2:0; "
			      "leave active group; join active group; event active; "
			      "leave active group2; leave active group; leave active group" },
	{ "destroy-joined", MEMBER "join active group; event active; destroy active" },

	/* Service ids */
	{ "ib-connect", "create listener ib; bind listener here; listen listener; "
			"create active ib; resolve-addr active here; event active; "
			"resolve-route active; event active; create-qp active; "
			"connect active data=hello; event passive; "
			"create-qp passive; accept passive data=welcome; "
			"event active; event passive; " DISCONNECTED },
	{ "ib-not-tcp", LISTENING "create active ib; resolve-addr active here; "
				  "event active; resolve-route active; event active; "
				  "create-qp active; connect active; event active" },
	{ "ib-without-parameters", "create listener ib; bind listener here; listen listener; "
				   "create active ib; resolve-addr active here; event active; "
				   "resolve-route active; event active; create-qp active; "
				   "connect active none; event passive" },
	{ "ipoib", "create listener ipoib; bind listener here; "
		   "listen listener; create active ipoib; "
		   "resolve-addr active here; event active" },

	/* The suite removes rxe0 when this script is ready. */
	{ "device-removal", CONNECTED "ready; event passive; event passive; "
				      "destroy passive; destroy listener; event active; "
				      "disconnect active" },
	{ NULL, NULL },
};

#define GIDS_OF_PATHS "librdmabroker has the GIDs of an id only in its paths"
#define DEVICE_FIRST "librdmacm reads the device of an id that has none yet"
#define KERNEL_BLOCKS \
	"the kernel forgets the message that was sent, and destroying the id blocks for minutes"
#define ATTR_WITH_EVENT \
	"the attributes came with the request, so only accept reports that the peer is gone"
#define MOVED_AWAY "a request on the old channel is rejected; with librdmacm its peer waits in vain"
#define AS_NEW "if the first call on an id is refused, the next call finds it unchanged"
#define JOINED_ONCE "an id can be in a group only once, so it leaves it only once"
#define KERNEL_NUMBER "524 is the kernel's own ENOTSUPP, which no program knows"
#define TOO_BIG "E2BIG names the error, and nothing was sent"
#define ONE_LIMIT "the library's limits of private data are InfiniBand's, on each fabric"
#define DECIDED "policy has decided about the address, so a path must lead there"
#define BY_EVENT "software iWARP's connect waits for the peer, so a thread calls it"
#define ACCEPT_BY_EVENT "an adapter's accept can wait for the firmware, so a thread calls it"
#define NO_WAIT "the kernel's disconnect waits until the connect has failed, the broker's does not"

const struct exception exceptions[] = {
	/* These steps are not executed with librdmacm. */
	{ "route-unbound", "resolve-route active", "not tried", "EINVAL", DEVICE_FIRST, ON_BOTH },
	{ "connect-unbound", "connect active", "not tried", "EINVAL", DEVICE_FIRST, ON_BOTH },
	{ "accept-unbound", "accept active", "not tried", "EINVAL", DEVICE_FIRST, ON_BOTH },
	{ "accept-without-qp", "accept passive none", "not tried", "EINVAL",
	  "librdmacm reads the QP number from parameters that are not there", ON_BOTH },
	{ "accept-twice-own-qp", "accept passive", "not tried", "EINVAL", KERNEL_BLOCKS, ON_BOTH },
	{ "establish-without-response", "establish active", "not tried", "EINVAL", KERNEL_BLOCKS,
	  ON_BOTH },
	{ "reject-own-request", "reject active data=no", "not tried", "EINVAL", KERNEL_BLOCKS,
	  ON_BOTH },
	{ "reject-accepted", "reject passive data=late", "not tried", "EINVAL", KERNEL_BLOCKS,
	  ON_BOTH },

	{ "path-datagram", "route passive",
	  "port 1, pkey 0, from ::ffff:10.9.0.1, to ::ffff:10.9.0.2, paths 0",
	  "port 1, pkey 0, from ::, to ::, paths 0", GIDS_OF_PATHS, ON_IB },

	{ "accept-peer-gone", "create-qp passive", "EINVAL", "0", ATTR_WITH_EVENT, ON_IB },

	{ "bind-in-use", "bind other 10.9.0.2:7471", "ENODEV", "0", AS_NEW, ON_IB },

	{ "set-path-elsewhere", "path active elsewhere", "0", "EINVAL", DECIDED, ON_BOTH },
	{ "set-path-elsewhere", "rest of active", "ROUTE_RESOLVED *", "nothing", DECIDED, ON_BOTH },

	{ "migrate-with-events", "quiet active", "nothing", "REJECTED active, status 28",
	  MOVED_AWAY, ON_IB },
	{ "join-twice", "join active 239.9.0.1:0", "0", "EEXIST", JOINED_ONCE, ON_BOTH },
	{ "join-twice", "quiet active",
	  "MULTICAST_JOIN active, status 0, qp multicast, qkey 0x1234567, sl 0, port 1, "
	  "dgid ::ffff:239.9.0.1, sgid index 1, hop limit 64, traffic class 0, context member",
	  "nothing", JOINED_ONCE, ON_BOTH },
	{ "join-ipv6", "join active group6", "errno 524", "EOPNOTSUPP", KERNEL_NUMBER, ON_BOTH },

	{ "connect-too-much-data", "connect active length=57", "EINVAL", "E2BIG", TOO_BIG, ON_IB },
	{ "accept-too-much-data", "accept passive length=197", "EINVAL", "E2BIG", TOO_BIG, ON_IB },
	/* With librdmacm, the kernel rejects a connection that it cannot accept. */
	{ "accept-too-much-data", "quiet active", "REJECTED active, status 28", "nothing", TOO_BIG,
	  ON_IB },
	{ "reject-too-much-data", "reject passive length=149", "EINVAL", "E2BIG", TOO_BIG, ON_IB },
	{ "lookup-too-much-data", "connect active length=181", "EINVAL", "E2BIG", TOO_BIG,
	  ON_BOTH },
	{ "lookup-answer-too-long", "accept passive length=137", "EINVAL", "E2BIG", TOO_BIG,
	  ON_BOTH },
	{ "lookup-answer-too-long", "quiet active", "UNREACHABLE active, status 2", "nothing",
	  TOO_BIG, ON_BOTH },
	/* iWARP */
	{ "migrate-with-events", "quiet active", "nothing", "REJECTED active, status ECONNRESET",
	  MOVED_AWAY, ON_IWARP },
	{ "disconnect-requested", "quiet active", "UNREACHABLE *", "nothing", NO_WAIT, ON_IWARP },
	{ "disconnect-connecting", "accept passive", "ECONNRESET", "0", NO_WAIT, ON_IWARP },
	{ "disconnect-connecting", "event active", "UNREACHABLE *", "CONNECT_ERROR *", NO_WAIT,
	  ON_IWARP },
	{ "disconnect-connecting", "quiet passive", "nothing", "@(ESTABLISHED|DISCONNECTED) *",
	  NO_WAIT, ON_IWARP },
	{ "connect-nobody", "connect active", "ECONNREFUSED", "@(0|EINVAL)", BY_EVENT, ON_IWARP },
	{ "connect-nobody", "event active", "ETIMEDOUT", "REJECTED active, status ECONNREFUSED",
	  BY_EVENT, ON_IWARP },
	{ "accept-peer-gone", "accept passive", "ECONNRESET", "0", ACCEPT_BY_EVENT, ON_IWARP },
	{ "accept-peer-gone", "quiet passive", "nothing",
	  "CONNECT_ERROR passive, status ECONNRESET", ACCEPT_BY_EVENT, ON_IWARP },
	{ "connect-too-much-data", "connect active length=57", "0", "E2BIG", ONE_LIMIT, ON_IWARP },
	{ "connect-too-much-data", "rest of passive", "CONNECT_REQUEST *", "nothing", ONE_LIMIT,
	  ON_IWARP },
	{ "accept-too-much-data", "accept passive length=197", "0", "E2BIG", ONE_LIMIT, ON_IWARP },
	{ "accept-too-much-data", "quiet active", "ESTABLISHED *", "nothing", ONE_LIMIT, ON_IWARP },
	{ "accept-too-much-data", "rest of passive", "ESTABLISHED *", "nothing", ONE_LIMIT,
	  ON_IWARP },
	{ "reject-too-much-data", "reject passive length=149", "0", "E2BIG", ONE_LIMIT, ON_IWARP },
	{ "reject-too-much-data", "quiet active", "REJECTED *", "nothing", ONE_LIMIT, ON_IWARP },
	{ "reject-too-much-data", "reject passive", "EINVAL", "0", ONE_LIMIT, ON_IWARP },
	{ "reject-too-much-data", "event active", "ETIMEDOUT", "REJECTED *", ONE_LIMIT, ON_IWARP },
	{ NULL, NULL, NULL, NULL, NULL, ON_BOTH },
};
