"""Single sign-on by OpenID Connect for the team server (docs/single-sign-on.md): mount it, and set AIRFLOW__FAB__CONFIG_FILE to its path."""

import os

from flask_appbuilder.const import AUTH_OAUTH

AUTH_TYPE = AUTH_OAUTH
OAUTH_PROVIDERS = [
    {
        "name": "keycloak",  # FAB reads users and groups of the names that it knows: keycloak, okta, azure, google, authentik …
        "icon": "fa-key",
        "token_key": "access_token",
        "remote_app": {
            "client_id": os.environ["OIDC_CLIENT_ID"],
            "client_secret": os.environ["OIDC_CLIENT_SECRET"],
            "server_metadata_url": os.environ["OIDC_ISSUER"] + "/.well-known/openid-configuration",
            "api_base_url": os.environ["OIDC_ISSUER"] + "/protocol/",  # FAB adds openid-connect/userinfo
            "client_kwargs": {"scope": "openid email profile"},
        },
    }
]
# A user is created at the first login. Groups give the roles, at each login; without a group there is a role without permissions.
AUTH_USER_REGISTRATION = True
AUTH_USER_REGISTRATION_ROLE = "Public"
AUTH_ROLES_SYNC_AT_LOGIN = True
AUTH_ROLES_MAPPING = {
    "plumbline-admins": ["Admin"],
    "plumbline-operators": ["Op"],
    "plumbline-readers": ["Plumbline reader"],
    "plumbline-finance": ["Plumbline reader", "Plumbline money"],
}
