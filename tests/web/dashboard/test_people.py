"""People at the console: what becomes of their tokens."""

import pytest

from hanse.kube.transport import Request, Response
from hanse.web.dashboard.people import People
from hanse.web.dashboard.viewers import AccessUnknown


@pytest.mark.anyio
async def test_an_answer_to_a_review_that_is_no_json_leaves_access_unknown() -> None:
    async def send(_: Request) -> Response:
        return Response(200, b"<html>a proxy</html>")

    with pytest.raises(AccessUnknown, match="TokenReview is not JSON"):
        await People(send, tuple).viewer("token")
