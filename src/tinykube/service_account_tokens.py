"""ServiceAccount tokens, signed with a key of the cluster."""

import hmac
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime, timedelta
from hashlib import sha256
from random import Random
from typing import Any

import msgspec

from tinykube.clock import Clock
from tinykube.errors import StatusError, bad_request, invalid, invalid_object, not_found
from tinykube.object_meta import new_uid, timestamp
from tinykube.resources import Object, Resource
from tinykube.storage import Storage
from tinykube.users import User

_ISSUER = "https://kubernetes.default.svc.cluster.local"
_HEADER = {"alg": "HS256", "kid": "embedded"}
_SHORTEST, _DEFAULT, _LONGEST = 600, 3600, 2**32
SECRET_TYPE = "kubernetes.io/service-account-token"  # noqa: S105 -- the name of a type


def with_defaults(request: Object) -> Object:
    """A TokenRequest with expirationSeconds, by default 3600.

    A copy unless it has them: then the request itself.
    """
    spec = request["spec"]
    if spec.get("expirationSeconds") is not None:
        return request
    return {**request, "spec": {**spec, "expirationSeconds": _DEFAULT}}


_VERIFIED_TOKENS = 1024
"""The tokens whose claims are kept."""


class TokenIssuer:
    """Issues and authenticates the tokens of one cluster."""

    def __init__(self, storage: Storage, clock: Clock, random: Random, key: bytes) -> None:
        """Sign with HMAC by this key; nothing is issued yet."""
        self._storage = storage
        self._clock = clock
        self._random = random
        self._key = key
        self._verified: dict[str, dict[str, Any]] = {}
        """The claims of tokens whose signature was found to be right, not to be modified."""

    def issue(self, resource: Resource, namespace: str, name: str, request: Object) -> Object:
        """A TokenRequest with a signed token in its status; nothing is stored.

        The request must have expirationSeconds; without audiences the token is for the cluster's
        own. If boundObjectRef is a Secret, the token is valid while that exists; other kinds are
        returned only. Raises 404 without service account or that Secret, 409 if the Secret has
        another uid, 422 for less than 600 s or more than 2^32 s, 400 for the name of another
        account.
        """
        account = self._storage.get("serviceaccounts", namespace, name)
        if account is None:
            raise not_found(resource, name)
        spec = request["spec"]
        seconds = spec["expirationSeconds"]
        if seconds < _SHORTEST:
            detail = "may not specify a duration less than 10 minutes"
            raise _invalid_request("spec.expirationSeconds", seconds, detail)
        if seconds > _LONGEST:
            detail = "may not specify a duration larger than 2^32 seconds"
            raise _invalid_request("spec.expirationSeconds", seconds, detail)
        sent = (request.get("metadata") or {}).get("name", "")
        if sent and sent != name:
            raise bad_request(f"must match the service account name: {name}")
        audiences = spec.get("audiences") or [_ISSUER]
        now = self._clock.now()
        expires = now + timedelta(seconds=seconds)
        claims = {"aud": audiences, "exp": int(expires.timestamp())}
        token = self._sign_token(account, claims, now, self._bound_secret(namespace, spec))
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": new_uid(self._random),
                "creationTimestamp": timestamp(now),
            },
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": spec.get("boundObjectRef"),
            },
            "status": {"token": token, "expirationTimestamp": timestamp(expires)},
        }

    def populate_secret(self, secret: Object) -> None:
        """Store a token without expiry, and the CA if known, in a Secret for a service account.

        The account is named by an annotation; if it does not exist, or there is a token already,
        nothing is done. The given object is not modified.
        """
        metadata = secret["metadata"]
        namespace = metadata["namespace"]
        name = (metadata.get("annotations") or {}).get("kubernetes.io/service-account.name", "")
        account = self._storage.get("serviceaccounts", namespace, name)
        if account is None or "token" in (secret.get("data") or {}):
            return
        token = self._sign_token(account, {}, self._clock.now(), metadata)
        data = {
            **(secret.get("data") or {}),
            "token": b64encode(token.encode()).decode(),
            "namespace": b64encode(namespace.encode()).decode(),
        }
        authority = self._storage.get("configmaps", namespace, "kube-root-ca.crt")
        if authority is not None and "ca.crt" in (authority.get("data") or {}):
            data["ca.crt"] = b64encode(authority["data"]["ca.crt"].encode()).decode()
        annotations = {
            **metadata["annotations"],
            "kubernetes.io/service-account.uid": account["metadata"]["uid"],
        }
        filled = {**secret, "metadata": {**metadata, "annotations": annotations}, "data": data}
        self._storage.replace("secrets", filled)

    def authenticate(self, token: str) -> User | None:
        """The user of a signed, unexpired token whose ServiceAccount exists, or None.

        If the token is bound to a Secret, that must exist too; both must have the uid in the token.
        The audiences of the token do not count.
        """
        claims = self._verified_claims(token)
        if claims is None or claims.get("exp", 2**62) < self._clock.now().timestamp():
            return None
        bound = claims["kubernetes.io"]
        namespace, account = bound["namespace"], bound["serviceaccount"]
        present = self._storage.get("serviceaccounts", namespace, account["name"])
        if present is None or present["metadata"]["uid"] != account["uid"]:
            return None
        secret = bound.get("secret")
        if secret is not None:
            held = self._storage.get("secrets", namespace, secret["name"])
            if held is None or held["metadata"]["uid"] != secret["uid"]:
                return None
        groups = (
            "system:serviceaccounts",
            f"system:serviceaccounts:{namespace}",
            "system:authenticated",
        )
        return User(claims["sub"], groups, account["uid"])

    def _bound_secret(self, namespace: str, spec: Object) -> Object | None:
        """The metadata of the Secret in a TokenRequest's boundObjectRef; None for another kind.

        Raises 404 if the Secret is missing, and 409 if the reference has another uid.
        """
        reference = spec.get("boundObjectRef") or {}
        if reference.get("kind") != "Secret":
            return None
        name, uid = reference.get("name", ""), reference.get("uid", "")
        secret = self._storage.get("secrets", namespace, name)
        if secret is None:
            raise StatusError(404, "NotFound", f'secrets "{name}" not found')
        metadata: Object = secret["metadata"]
        if uid and uid != metadata["uid"]:
            why = (
                f"the UID in the bound object reference ({uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise StatusError(
                409, "Conflict", f'Operation cannot be fulfilled on Secret "{name}": {why}'
            )
        return metadata

    def _sign_token(
        self, account: Object, claims: dict[str, Any], now: datetime, secret: Object | None
    ) -> str:
        """A signed JWT of the service account with these claims, issued now; nothing is stored.

        `secret` is the metadata of the Secret that the token is bound to, None if there is none.
        """
        metadata = account["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        bound = {"secret": {"name": secret["name"], "uid": secret["uid"]}} if secret else {}
        payload = {
            "iss": _ISSUER,
            "iat": int(now.timestamp()),
            "nbf": int(now.timestamp()),
            "sub": f"system:serviceaccount:{namespace}:{name}",
            "kubernetes.io": {
                "namespace": namespace,
                "serviceaccount": {"name": name, "uid": metadata["uid"]},
                **bound,
            },
            **claims,
        }
        text = f"{_encode_part(_HEADER)}.{_encode_part(payload)}"
        return f"{text}.{self._signature(text)}"

    def _signature(self, text: str) -> str:
        """The HMAC of a text with the cluster's key, in base64url without padding."""
        made = hmac.new(self._key, text.encode(), sha256).digest()
        return urlsafe_b64encode(made).rstrip(b"=").decode()

    def _verified_claims(self, token: str) -> dict[str, Any] | None:
        """The claims of a token, cached; None if it is malformed or its signature is wrong.

        Expiry is not checked here.
        """
        known = self._verified.get(token)
        if known is not None:
            return known
        text, _, signature = token.rpartition(".")
        if not text or not token.isascii():
            return None
        if not hmac.compare_digest(self._signature(text), signature):
            return None
        body = text.partition(".")[2]
        claims: dict[str, Any] = msgspec.json.decode(
            urlsafe_b64decode(body + "=" * (-len(body) % 4))
        )
        if len(self._verified) >= _VERIFIED_TOKENS:
            del self._verified[next(iter(self._verified))]
        self._verified[token] = claims
        return claims


def _encode_part(value: dict[str, Any]) -> str:
    """A part of a JWT: JSON in base64url without padding."""
    return urlsafe_b64encode(msgspec.json.encode(value)).rstrip(b"=").decode()


def _invalid_request(field: str, value: int, detail: str) -> Exception:
    """The 422 to raise for a TokenRequest with a bad field."""
    error = invalid(field, value, detail)
    return invalid_object("TokenRequest", "authentication.k8s.io", "", [error])
