/* Arm's CMSIS-NN, which the firmware brings. */
#include "arm_nnfunctions.h"
