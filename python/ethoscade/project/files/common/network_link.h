/* The network of this project on a link: a host writes its inputs, runs it, and reads what it likes.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef NETWORK_LINK_H
#define NETWORK_LINK_H

#include "ethoscade_link.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Answer the host over `port` until its stream ends. */
void network_serve(const struct ethoscade_link_port* port);

#ifdef __cplusplus
}
#endif

#endif
