// Loss scaling, which a training step needs if its matmuls, and so its gradients, are f16.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <array>

namespace tcc {

/// The states of loss scaling, f32 scalars that begin as zeros: the scale (0: not set yet, 65536 then), steps since it
/// last changed, and steps that were left out.
inline constexpr std::array<const char *, 3> lossScalingStates = {"loss_scale", "loss_scale.good_steps",
                                                                  "loss_scale.skipped_steps"};

/// Scales the loss of each tcc.gradient of a captured training step by a state, and the gradients back (by a power of
/// two, so exactly): small gradients do not vanish in f16 on their way. A step whose loss or gradients are not finite
/// leaves every other state's bits as they were and halves the scale; 2000 steps without such a step double it. The
/// host reads none of this (Micikevicius et al. 2018, section 3.2; the constants are those of PyTorch's GradScaler).
/// Gives false, and changes nothing, if there is no gradient, no state to update, or a state with one of the names
/// above; a step of the last kind has its own scaling.
bool scaleLoss(mlir::func::FuncOp function);

} // namespace tcc
