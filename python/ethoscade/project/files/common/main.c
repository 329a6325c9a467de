/* The firmware: a network that a host drives over the board's stream. SPDX-License-Identifier: Apache-2.0 */
#include "network_link.h"
#include "platform.h"

int main(int argc, char** argv)
{
  platform_start(argc, argv);
  network_serve(&platform_port);
  return 0;
}
