"""Findings as messages: to the log always, to Slack if there is a connection."""

from plumbline.alerts.context import Context
from plumbline.alerts.delivery import Case, Delivery, Incidents, deliver
from plumbline.alerts.message import Message, render
from plumbline.alerts.slack import CONNECTION, Slack, connect

__all__ = ["CONNECTION", "Case", "Context", "Delivery", "Incidents", "Message", "Slack", "connect", "deliver", "render"]
