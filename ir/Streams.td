// InFlightOpInterface: ops that start where they stand and end later, while other ops run: collectives, copies to and
// from the host.
#ifndef TCC_STREAMS_TD
#define TCC_STREAMS_TD

include "mlir/IR/OpBase.td"

def InFlightOpInterface : OpInterface<"InFlightOpInterface"> {
  let cppNamespace = "::tcc";
  let description = [{
    An op that runs on a stream of its own. Ops of one stream run one after another; all others are on stream 0. It
    starts when everything of stream 0 that stands before it is done, and whatever stands at or after the op that waits
    for it starts when it is done: in between it is in flight. Its operands keep their bytes as long, and nothing else is
    written where its results and its scratch are (passes/stream_order.h).

    - (in_flight_c1) the op that waits stands after it in the same block, on stream 0;
    - (in_flight_c2) what uses its results before that is on its own stream.
  }];
  let methods = [
    InterfaceMethod<"The stream that it runs on; 0: it is in order with all others, and nobody waits for it.",
      "unsigned", "stream">,
    InterfaceMethod<"The op that waits for it; null on stream 0.", "::mlir::Operation *", "waitingOp">
  ];
}

#endif
