"""A hostile site: Python reads this file first where its folder is in PYTHONPATH. The app that the SuperLink sends is the honest one; what
leaves the site is not. FEDGRAB_HOSTILE names, by round and in a list with commas, what is sent instead of an honest reply."""

import os


def numbers_of(arrays, change):
    from flwr.app import Array, ArrayRecord
    return ArrayRecord({name: Array(change(array.numpy())) for name, array in arrays.items()})


def text(content):
    import numpy as np
    content["arrays"] = numbers_of(content["arrays"], lambda values: np.full(values.shape, "x"))
    content["metrics"]["num-examples"] = [1, 2]
    return content


def empty(content):
    from flwr.app import RecordDict
    return RecordDict()


def huge(content):
    content["arrays"] = numbers_of(content["arrays"], lambda values: values * 0 + values.dtype.type(1e30))
    return content


def nan(content):
    content["arrays"] = numbers_of(content["arrays"], lambda values: values * float("nan"))
    return content


def heavy(content):
    content["metrics"]["num-examples"] = 10**15
    return content


def with_state(content, context, name):
    """Replays the reply of the first round in which it behaved."""
    from flwr.app import RecordDict
    if name == "honest":
        context.state["hostile-replay"] = content["arrays"]
        return content
    return RecordDict(dict(content.items()) | {"arrays": context.state["hostile-replay"]})


def hostile(handler, plan):
    def answer(message, context):
        reply = handler(message, context)
        name = plan[(int(message.content["config"]["server-round"]) - 1) % len(plan)]
        if name in ("honest", "replay"):
            reply.content = with_state(reply.content, context, name)
        else:
            reply.content = {"text": text, "empty": empty, "huge": huge, "nan": nan, "heavy": heavy}[name](reply.content)
        return reply
    return answer


def install(plan):
    from flwr.clientapp import ClientApp
    train = ClientApp.train
    ClientApp.train = lambda self, *args, **named: lambda handler: train(self, *args, **named)(hostile(handler, plan))


if os.environ.get("FEDGRAB_HOSTILE"):
    install(os.environ["FEDGRAB_HOSTILE"].split(","))
