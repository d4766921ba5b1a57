// An LSTM whose matrices have eight bits; activations are rounded by what each step has.
#pragma once

#include <memory>

#include "model/layers/lstm_operator.h"
#include "quantization/quantized_layer.h"

namespace trainctl {

class QuantizedLstm : public LstmStandIn, public QuantizedPart {};
std::unique_ptr<QuantizedLstm> quantized_lstm(LstmOperator& layer, QuantizationBackend backend);

}  // namespace trainctl
