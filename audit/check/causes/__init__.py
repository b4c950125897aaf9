"""Why a reported number is wrong or in doubt: rules over a described run, each with an id."""
