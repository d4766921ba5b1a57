// An LSTM whose matrices have eight bits; activations are rounded by what each step has.
#pragma once

#include <memory>

#include "model/layers/lstm_operator.h"
#include "quantization/layer/quantized_layer.h"

namespace trainctl::quantization {

class QuantizedLstm : public model::LstmStandIn, public QuantizedPart {};
std::unique_ptr<QuantizedLstm> quantized_lstm(model::LstmOperator& layer, QuantizationBackend backend);

}  // namespace trainctl::quantization
