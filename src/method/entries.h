/// One function per method file, for the registry.
#pragma once

#include "fedgrab/method/method.h"

namespace fedgrab {

MethodEntry fedprox_entry();
MethodEntry fednova_entry();
MethodEntry fedavgm_entry();
MethodEntry fedadagrad_entry();
MethodEntry fedadam_entry();
MethodEntry fedyogi_entry();

}  // namespace fedgrab
