# SPDX-License-Identifier: BSD-2-Clause
"""What passes requests on to the scheduler, with the names of SGLang's."""
from serving import State


class GenerateReqInput:
    def __init__(self, rid, prompt, tokens):
        self.rid, self.prompt, self.tokens = rid, prompt, tokens


class TokenizedGenerateReqInput:
    def __init__(self, obj):
        self.rid, self.prompt, self.tokens = obj.rid, obj.prompt, obj.tokens


class ReqState(State):
    def __init__(self, obj):
        super().__init__()
        self.obj = obj


class TokenizerManager:
    def __init__(self, pipe):
        self.pipe = pipe

    def _send_one_request(self, obj, tokenized_obj, created_time=None):
        self.pipe.send(tokenized_obj)
        return ReqState(obj)


class TokenizerManagerOf2026(TokenizerManager):
    """It has the tokenized request alone."""

    def _send_one_request(self, tokenized_obj):
        self.pipe.send(tokenized_obj)


TokenizerManagerOf2026._send_one_request.__code__ = TokenizerManagerOf2026._send_one_request.__code__.replace(
    **({"co_qualname": "TokenizerManager._send_one_request"} if hasattr(TokenizerManagerOf2026._send_one_request.__code__, "co_qualname") else {}))
